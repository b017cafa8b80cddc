"""Painter of planets among the stars."""

import math
import random
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from demo.drawing import (
    COLOURS,
    FINE,
    WHITE,
    Colour,
    Picture,
    Size,
    a_few,
    any_colours,
    any_size,
    disc,
    glow,
    grid,
    mix,
    scaled,
    vertical_gradient,
    with_article,
)


def planet(dice: random.Random) -> Picture:
    """Describe a banded planet among stars; some have a ring, some have moons."""
    size, names, ringed, moons = any_size(dice), any_colours(dice, 2), dice.random() < 0.5, dice.randint(0, 3)
    extras = ("with a bright ring and " if ringed else "with ") + a_few(moons, "moon")
    globe = f"{with_article(names[0]).capitalize()} planet with {names[1]} bands"
    caption = f"{globe}, {extras}, among the stars"
    pair = COLOURS[names[0]], COLOURS[names[1]]
    return Picture(size, caption, partial(_paint_planet, size, pair, ringed, moons, dice.getrandbits(32)))


def _paint_planet(size: Size, pair: tuple[Colour, Colour], ringed: bool, moons: int, seed: int) -> Image.Image:
    dice, (width, height) = random.Random(seed), scaled(size, FINE)
    canvas = vertical_gradient((width, height), [(8, 8, 24), (26, 18, 52), (10, 12, 34)])
    draw, centre, radius = ImageDraw.Draw(canvas), (width / 2, height / 2), min(width, height) * 0.28
    for _ in range(140):
        spot = dice.uniform(0, width), dice.uniform(0, height)
        disc(draw, spot, dice.uniform(0.4, 1.3) * FINE, mix((40, 40, 80), WHITE, dice.random()))
    glow(canvas, centre, radius * 1.7, pair[0], 0.5)
    for number in range(moons):
        angle = math.tau * (number + dice.random()) / moons
        spot = width / 2 + width * 0.42 * math.cos(angle), height / 2 + height * 0.42 * math.sin(angle)
        disc(draw, spot, radius * dice.uniform(0.08, 0.16), mix(pair[1], WHITE, 0.6))
    ring = mix(pair[1], WHITE, 0.5) if ringed else None
    _draw_ring(draw, centre, radius, ring, 180, 360)
    _paste_globe(canvas, centre, round(radius), pair, dice.uniform(2.5, 7))
    _draw_ring(draw, centre, radius, ring, 0, 180)
    return canvas.reduce(FINE)


def _draw_ring(
    draw: ImageDraw.ImageDraw,
    centre: tuple[float, float],
    radius: float,
    ring: Colour | None,
    start: int,
    end: int,
) -> None:
    if ring is None:
        return
    for share in (1.35, 1.5, 1.62):
        wide, flat = radius * share, radius * share * 0.28
        box = (centre[0] - wide, centre[1] - flat, centre[0] + wide, centre[1] + flat)
        draw.arc(box, start, end, fill=mix(ring, (90, 80, 90), share - 1.2), width=round(radius * 0.06))


def _paste_globe(
    canvas: Image.Image, centre: tuple[float, float], radius: int, pair: tuple[Colour, Colour], bands: float
) -> None:
    half = max(1, radius // FINE)
    x, y = ((axis - half) / half for axis in grid((2 * half, 2 * half)))
    depth = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
    light = np.clip(0.15 + 0.9 * (depth * 0.7 - x * 0.5 - y * 0.5), 0.08, 1)
    share = 0.5 + 0.5 * np.sin(bands * math.tau * (y / 2 + 0.05 * np.sin(3 * x + 4 * y)))
    colours = np.array(pair[0]) + (np.array(pair[1]) - np.array(pair[0])) * share[..., None]
    globe = Image.fromarray((colours * light[..., None]).astype(np.uint8)).resize((2 * radius, 2 * radius))
    mask = Image.new("L", globe.size)
    ImageDraw.Draw(mask).ellipse((0, 0, 2 * radius - 1, 2 * radius - 1), fill=255)
    canvas.paste(globe, (round(centre[0]) - radius, round(centre[1]) - radius), mask)
