"""Painters of landscapes, and of balloons in the sky."""

import math
import random
from dataclasses import dataclass
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
    mix,
    reflect,
    scaled,
    vertical_gradient,
)


@dataclass(frozen=True)
class Sky:
    """A time of day: the colours from zenith to horizon, and of the sun or moon."""

    name: str
    stops: tuple[Colour, ...]
    light: Colour
    lamp: str = "sun"


SKIES = (
    Sky("sunrise", ((92, 130, 190), (238, 178, 160), (255, 226, 170)), (255, 240, 190)),
    Sky("noon", ((58, 130, 214), (140, 194, 240), (214, 236, 250)), (255, 252, 230)),
    Sky("sunset", ((64, 48, 110), (206, 88, 96), (250, 176, 88)), (255, 214, 120)),
    Sky("dusk", ((24, 28, 72), (98, 66, 128), (222, 132, 130)), (255, 226, 200), "moon"),
    Sky("night", ((6, 10, 30), (18, 32, 74), (52, 76, 128)), (236, 238, 226), "moon"),
)
GROUNDS: dict[str, Colour] = {
    "a still lake": (40, 84, 110),
    "a pine forest": (20, 58, 46),
    "a meadow of flowers": (76, 128, 58),
    "desert dunes": (198, 140, 84),
}


def landscape(dice: random.Random) -> Picture:
    """Describe hills that fade with distance behind a lake, a forest, a meadow or dunes."""
    size, sky, ground, ridges = (
        any_size(dice),
        dice.choice(SKIES),
        dice.choice(list(GROUNDS)),
        dice.randint(2, 5),
    )
    hills = f"{a_few(ridges, 'ridge')} of hills at {sky.name}"
    caption = f"{ground.capitalize()} in front of {hills}, the {sky.lamp} above them"
    return Picture(size, caption, partial(_paint_landscape, size, sky, ground, ridges, dice.getrandbits(32)))


def _paint_landscape(size: Size, sky: Sky, ground: str, ridges: int, seed: int) -> Image.Image:
    canvas, noise = paint_sky(scaled(size, FINE), sky, seed), np.random.default_rng(seed)
    width, height = canvas.size
    draw, shore = ImageDraw.Draw(canvas), round(height * 0.68)
    tint = mix(GROUNDS[ground], sky.stops[0], 0.45)
    for ridge in range(ridges):
        nearness = (ridge + 1) / ridges
        line = ridge_line(width, noise, height * (0.42 + 0.24 * nearness), height * 0.06)
        draw.polygon([(0, height), *line, (width, height)], fill=mix(sky.stops[-1], tint, 0.25 + 0.6 * nearness))
    _paint_ground(canvas, shore, sky, ground, noise)
    return canvas.reduce(FINE)


def paint_sky(size: Size, sky: Sky, seed: int) -> Image.Image:
    """Paint a sky of ``size`` pixels with its sun or moon, and with stars if it is dark."""
    dice, (width, height) = random.Random(seed), size
    canvas = vertical_gradient(size, sky.stops)
    draw = ImageDraw.Draw(canvas)
    for _ in range(90 if sky.name in ("dusk", "night") else 0):
        spot = dice.uniform(0, width), dice.uniform(0, height * 0.5)
        disc(draw, spot, dice.uniform(0.5, 1.1) * FINE, mix(sky.stops[0], WHITE, dice.uniform(0.3, 0.9)))
    centre, radius = (width * dice.uniform(0.2, 0.8), height * dice.uniform(0.16, 0.4)), min(size) * 0.06
    glow(canvas, centre, radius * 6, sky.light, 0.6)
    disc(draw, centre, radius, sky.light)
    return canvas


def ridge_line(width: int, noise: np.random.Generator, middle: float, swing: float) -> list[tuple[float, float]]:
    """Return the points of an uneven line from the left to the right edge, around row ``middle``."""
    x = np.linspace(0, 1, 80)
    line = np.zeros_like(x)
    for wave in (1, 2, 4, 8, 16):
        line += np.sin(x * math.tau * wave * noise.uniform(0.6, 1.4) + noise.uniform(0, math.tau)) / wave**1.1
    return list(zip((x * width).tolist(), (middle - swing * line).tolist(), strict=True))


def _paint_ground(canvas: Image.Image, shore: int, sky: Sky, ground: str, noise: np.random.Generator) -> None:
    colour = mix(GROUNDS[ground], sky.stops[0], 0.25)
    if ground == "a still lake":
        reflect(canvas, shore, colour, noise)
    elif ground == "a pine forest":
        _paint_pines(canvas, shore, colour, noise)
    elif ground == "a meadow of flowers":
        _paint_meadow(canvas, shore, colour, noise)
    else:
        _paint_dunes(canvas, shore, colour, noise)


def _paint_pines(canvas: Image.Image, shore: int, colour: Colour, noise: np.random.Generator) -> None:
    draw, (width, height) = ImageDraw.Draw(canvas), canvas.size
    for row in range(3):
        foot, shade = shore + (height - shore) * (0.3 + 0.3 * row), mix(colour, (0, 0, 0), 0.2 * row)
        draw.rectangle((0, foot - 1, width, height), fill=shade)
        for x in noise.uniform(0, width, 26):
            tall = height * noise.uniform(0.12, 0.24)
            for tier in range(3):
                top, half = foot - tall * (1 - 0.25 * tier), tall * (0.12 + 0.05 * tier)
                draw.polygon([(x, top), (x - half, top + tall * 0.45), (x + half, top + tall * 0.45)], fill=shade)


def _paint_meadow(canvas: Image.Image, shore: int, colour: Colour, noise: np.random.Generator) -> None:
    draw, (width, height) = ImageDraw.Draw(canvas), canvas.size
    line = ridge_line(width, noise, shore, height * 0.012)
    draw.polygon([(0, height), *line, (width, height)], fill=colour)
    blooms = [COLOURS[name] for name in ("crimson", "golden", "white", "violet", "pink")]
    for y in np.sort(noise.uniform(shore + height * 0.03, height, 160)):
        near = (y - shore) / (height - shore)
        x, radius = noise.uniform(0, width), FINE * (0.8 + 3.2 * near)
        draw.line((x, y, x, y + 4 * radius), fill=mix(colour, (0, 0, 0), 0.3), width=FINE)
        disc(draw, (x, y), radius, blooms[int(noise.integers(len(blooms)))])


def _paint_dunes(canvas: Image.Image, shore: int, colour: Colour, noise: np.random.Generator) -> None:
    draw, (width, height) = ImageDraw.Draw(canvas), canvas.size
    for dune in range(4):
        middle = shore + (height - shore) * dune / 4
        line = ridge_line(width, noise, middle, height * 0.03)
        draw.polygon([(0, height), *line, (width, height)], fill=mix(colour, WHITE, 0.35 - 0.1 * dune))


def balloons(dice: random.Random) -> Picture:
    """Describe striped hot-air balloons over hills."""
    size, sky, count, names = any_size(dice), dice.choice(SKIES[:3]), dice.randint(1, 7), any_colours(dice, 2)
    flight = f"{a_few(count, 'hot-air balloon')} with {names[0]} and {names[1]} stripes"
    caption = f"{flight.capitalize()} drifting over green hills at {sky.name}"
    pair = COLOURS[names[0]], COLOURS[names[1]]
    return Picture(size, caption, partial(_paint_balloons, size, sky, count, pair, dice.getrandbits(32)))


def _paint_balloons(size: Size, sky: Sky, count: int, pair: tuple[Colour, Colour], seed: int) -> Image.Image:
    canvas, dice = paint_sky(scaled(size, FINE), sky, seed), random.Random(seed + 1)
    noise, (width, height) = np.random.default_rng(seed), canvas.size
    draw = ImageDraw.Draw(canvas)
    for depth in range(2):
        line = ridge_line(width, noise, height * (0.84 + 0.06 * depth), height * 0.03)
        green = mix((86, 140, 80), sky.stops[-1], 0.4 - 0.25 * depth)
        draw.polygon([(0, height), *line, (width, height)], fill=green)
    columns = dice.sample(range(count), count)
    for number, column in enumerate(columns):
        radius = min(width / (count + 1.5), height * 0.3) * (0.35 + 0.35 * (number + 1) / count)
        centre = width * (column + 0.5) / count, dice.uniform(radius + height * 0.03, height * 0.62)
        _draw_balloon(draw, centre, radius, pair)
    return canvas.reduce(FINE)


def _draw_balloon(
    draw: ImageDraw.ImageDraw, centre: tuple[float, float], radius: float, pair: tuple[Colour, Colour]
) -> None:
    x, y = centre
    basket = y + radius * 1.75
    for side in (-1, 1):
        draw.line(
            (x + side * radius * 0.5, y + radius * 0.8, x + side * radius * 0.13, basket),
            fill=(70, 50, 40),
            width=FINE,
        )
    draw.polygon(
        [(x - radius * 0.8, y + radius * 0.6), (x + radius * 0.8, y + radius * 0.6), (x, y + radius * 1.55)],
        fill=pair[0],
    )
    for stripe, share in enumerate((1, 0.78, 0.54, 0.3, 0.1)):
        draw.ellipse((x - radius * share, y - radius, x + radius * share, y + radius), fill=pair[stripe % 2])
    draw.rectangle((x - radius * 0.16, basket, x + radius * 0.16, basket + radius * 0.24), fill=(112, 72, 40))
