"""Painter of city skylines."""

import random
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from demo.drawing import (
    FINE,
    Colour,
    Picture,
    Size,
    a_few,
    any_size,
    mix,
    reflect,
    scaled,
)
from demo.scenery import SKIES, Sky, paint_sky


def city(dice: random.Random) -> Picture:
    """Describe a skyline with lit windows; half of the skylines stand at a river that reflects them."""
    size, sky, towers, river = any_size(dice), dice.choice(SKIES), dice.randint(7, 16), dice.random() < 0.5
    where = "mirrored in the river" if river else "seen from the street"
    caption = f"A city skyline of {a_few(towers, 'tower')} with lit windows at {sky.name}, {where}"
    return Picture(size, caption, partial(_paint_city, size, sky, towers, river, dice.getrandbits(32)))


def _paint_city(size: Size, sky: Sky, towers: int, river: bool, seed: int) -> Image.Image:
    canvas, dice = paint_sky(scaled(size, FINE), sky, seed), random.Random(seed + 1)
    width, height = canvas.size
    draw, street = ImageDraw.Draw(canvas), round(height * (0.72 if river else 0.98))
    haze, stone = mix(sky.stops[-1], sky.stops[0], 0.5), mix(sky.stops[0], (12, 14, 24), 0.65)
    for _ in range(towers * 2):
        left, top = dice.uniform(-0.05, 1) * width, street - dice.uniform(0.2, 0.5) * height
        draw.rectangle((left, top, left + width * 0.07, street), fill=haze)
    draw.rectangle((0, street, width, height), fill=mix(stone, (0, 0, 0), 0.5))
    for number in range(towers):
        wide, tall = width / towers * dice.uniform(0.75, 0.98), height * dice.uniform(0.18, 0.55)
        _draw_tower(
            draw,
            dice,
            (number * width / towers, street - tall, wide, tall),
            mix(stone, haze, dice.uniform(0, 0.3)),
        )
    if river:
        reflect(canvas, street, stone, np.random.default_rng(seed))
    return canvas.reduce(FINE)


def _draw_tower(
    draw: ImageDraw.ImageDraw, dice: random.Random, place: tuple[float, float, float, float], stone: Colour
) -> None:
    left, top, wide, tall = place
    draw.rectangle((left, top, left + wide, top + tall), fill=stone)
    if dice.random() < 0.3:
        draw.line((left + wide / 2, top, left + wide / 2, top - tall * 0.2), fill=stone, width=2 * FINE)
    columns, rows = min(6, max(2, round(wide / (7 * FINE)))), min(22, max(3, round(tall / (9 * FINE))))
    across, down = wide / columns, tall / rows
    for column in range(columns):
        for row in range(rows):
            if dice.random() < 0.45:
                x, y = left + (column + 0.25) * across, top + (row + 0.3) * down
                light = mix((255, 214, 120), (255, 246, 214), dice.random())
                draw.rectangle((x, y, x + across * 0.5, y + down * 0.4), fill=light)
