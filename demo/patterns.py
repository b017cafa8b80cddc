"""Painters of patterns: fractals, mosaics, interfering waves, flowers."""

import math
import random
from functools import partial

import numpy as np
from PIL import Image, ImageDraw

from demo.drawing import (
    COLOURS,
    FINE,
    Colour,
    Picture,
    Size,
    a_few,
    any_colours,
    any_size,
    coloured,
    disc,
    grid,
    mix,
    scaled,
    vertical_gradient,
    with_article,
)

WHITE_GLASS: Colour = (255, 250, 235)

JULIA_SETS: dict[str, complex] = {
    "dendrite": 0.0 + 1.0j,
    "rabbit": -0.123 + 0.745j,
    "dragon": -0.8 + 0.156j,
    "galaxy": -0.7269 + 0.1889j,
    "seahorse": -0.75 + 0.11j,
    "snowflake": 0.285 + 0.01j,
    "lightning": -0.1 + 0.651j,
    "spiral": -0.4 + 0.6j,
}
FRACTAL_STEPS = 40
FRACTAL_WIDTH = 260
"""Maximum width at which fractals are computed before enlarging: they cost the most per pixel."""
MOSAIC_WIDTH = 400
"""Maximum width at which mosaics are computed before enlarging."""


def fractal(dice: random.Random) -> Picture:
    """Describe a Julia set in three colours."""
    size, name, names = any_size(dice), dice.choice(list(JULIA_SETS)), any_colours(dice, 3)
    colours = " and ".join(names)
    caption = f"{with_article(name).capitalize()} fractal, a Julia set in {colours}"
    zoom, turn = dice.uniform(1.1, 1.6), dice.uniform(0, math.tau)
    return Picture(size, caption, partial(_paint_fractal, size, JULIA_SETS[name], zoom, turn, _stops(names)))


def _paint_fractal(size: Size, constant: complex, zoom: float, turn: float, stops: list[Colour]) -> Image.Image:
    small = scaled(size, min(1, FRACTAL_WIDTH / size[0]))
    x, y = grid(small)
    reach = 2 * zoom / min(small)
    plane = ((x - small[0] / 2) + 1j * (y - small[1] / 2)) * reach * complex(math.cos(turn), math.sin(turn))
    steps = _escape_steps(plane.astype(np.complex64), constant)
    ink = [mix(COLOURS["charcoal"], stops[0], 0.4), *stops, COLOURS["cream"]]
    return coloured((steps / FRACTAL_STEPS) ** 0.6, ink).resize(size, Image.Resampling.BICUBIC)


def _escape_steps(plane: np.ndarray, constant: complex) -> np.ndarray:
    """Return the steps until each point escapes, with a fraction that smooths the bands."""
    steps = np.full(plane.size, FRACTAL_STEPS, np.float32)
    places, values = np.arange(plane.size), plane.ravel()
    for step in range(FRACTAL_STEPS):
        values = values * values + np.complex64(constant)
        distance = values.real**2 + values.imag**2
        gone = distance > 64
        steps[places[gone]] = step + 2 - np.log2(np.log2(distance[gone]) / 2)
        places, values = places[~gone], values[~gone]
    return np.clip(steps, 0, FRACTAL_STEPS).reshape(plane.shape)


def mosaic(dice: random.Random) -> Picture:
    """Describe irregular tiles (Voronoi cells) with dark joints, like stained glass."""
    size, names, across = any_size(dice), any_colours(dice, dice.randint(3, 5)), dice.randint(5, 12)
    caption = f"A stained glass mosaic of {', '.join(names[:-1])} and {names[-1]} tiles"
    return Picture(size, caption, partial(_paint_mosaic, size, across, dice.getrandbits(32), _stops(names)))


def _paint_mosaic(size: Size, across: int, seed: int, stops: list[Colour]) -> Image.Image:
    noise, small = np.random.default_rng(seed), scaled(size, min(1, MOSAIC_WIDTH / size[0]))
    cell = small[0] / across
    shape = (math.ceil(small[1] / cell) + 4, across + 5)
    seeds = noise.random((2, *shape), dtype=np.float32)
    nearest, gap = _voronoi(small, cell, seeds)
    shades = np.array(
        [mix(stops[i % len(stops)], WHITE_GLASS, noise.random() * 0.35) for i in range(shape[0] * shape[1])]
    )
    tiles = shades[noise.permutation(len(shades))][nearest]
    joint = np.clip(gap * 14 - 0.3, 0.12, 1)[..., None]
    return Image.fromarray((tiles * joint).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)


def _voronoi(size: Size, cell: float, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest seed of every pixel, and how much farther the second nearest is (in cells).

    One seed lies in each cell of a square grid, so only the nine cells around a pixel can hold the nearest.
    """
    x, y = (axis / cell + 2 for axis in grid(size))
    column, row = x.astype(int), y.astype(int)
    shape = (size[1], size[0])
    best, second = np.full(shape, 9, np.float32), np.full(shape, 9, np.float32)
    nearest = np.zeros(shape, int)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            at = (row + down, column + right)
            distance = np.hypot(x - column - right - seeds[0][at], y - row - down - seeds[1][at])
            closer = distance < best
            second = np.where(closer, best, np.minimum(second, distance))
            nearest = np.where(closer, (row + down) * seeds.shape[2] + column + right, nearest)
            best = np.minimum(best, distance)
    return nearest, second - best


def waves(dice: random.Random) -> Picture:
    """Describe rings that spread from several points and interfere."""
    size, sources, names = any_size(dice), dice.randint(2, 5), any_colours(dice, 3)
    surface = f"{with_article(names[1])} surface, {names[0]} in the troughs and {names[2]} on the crests"
    caption = f"Ripples from {a_few(sources, 'point')} interfering on {surface}"
    points = tuple((dice.random(), dice.random(), dice.uniform(14, 34)) for _ in range(sources))
    return Picture(size, caption, partial(_paint_waves, size, points, _stops(names)))


def _paint_waves(size: Size, points: tuple[tuple[float, float, float], ...], stops: list[Colour]) -> Image.Image:
    x, y = grid(size)
    height = np.zeros((size[1], size[0]), np.float32)
    for across, down, length in points:
        distance = np.hypot(x - across * size[0], y - down * size[1])
        height += np.sin(distance * (math.tau / length)) / (1 + distance / max(size))
    return coloured(0.5 + height / (1.6 * len(points)), stops)


def flower(dice: random.Random) -> Picture:
    """Describe a bloom of several rings of petals around a spiral of florets."""
    size, petals, rings = any_size(dice), dice.choice((8, 13, 21)), dice.randint(2, 4)
    petal, heart, ground = any_colours(dice, 3)
    petal_rings = f"{a_few(petals, 'petal')} in each of {a_few(rings, 'ring')}"
    flower_head = f"{with_article(petal).capitalize()} flower with {petal_rings}"
    caption = f"{flower_head}, {with_article(heart)} heart and {with_article(ground)} background"
    return Picture(size, caption, partial(_paint_flower, size, petals, rings, _stops([petal, heart, ground])))


def _paint_flower(size: Size, petals: int, rings: int, stops: list[Colour]) -> Image.Image:
    petal, heart, ground = stops
    width, height = scaled(size, FINE)
    canvas = vertical_gradient(
        (width, height), [mix(ground, WHITE_GLASS, 0.35), mix(ground, COLOURS["charcoal"], 0.35)]
    )
    draw, reach = ImageDraw.Draw(canvas), min(width, height) * 0.47
    for ring in range(rings):
        colour, length = mix(petal, WHITE_GLASS, 0.45 * ring / rings), reach * (1 - 0.2 * ring)
        for number in range(petals):
            angle = math.tau * (number + ring / 2) / petals
            outline = _petal((width / 2, height / 2), length, angle, math.pi / petals)
            draw.polygon(outline, fill=colour, outline=mix(colour, COLOURS["charcoal"], 0.4), width=FINE)
    _draw_florets(draw, (width / 2, height / 2), reach * 0.32, heart)
    return canvas.reduce(FINE)


def _petal(centre: tuple[float, float], length: float, angle: float, half_width: float) -> list[tuple[float, float]]:
    sides = [(t, half_width * math.sin(math.pi * t) ** 0.7) for t in np.linspace(0.1, 1, 10)]
    outline = sides + [(t, -bend) for t, bend in reversed(sides)]
    return [
        (centre[0] + length * t * math.cos(angle + bend), centre[1] + length * t * math.sin(angle + bend))
        for t, bend in outline
    ]


def _draw_florets(draw: ImageDraw.ImageDraw, centre: tuple[float, float], reach: float, heart: Colour) -> None:
    disc(draw, centre, reach, mix(heart, COLOURS["charcoal"], 0.55))
    golden_angle, florets = math.pi * (3 - math.sqrt(5)), 140
    for number in range(florets):
        distance, angle = reach * math.sqrt(number / florets) * 0.96, number * golden_angle
        spot = centre[0] + distance * math.cos(angle), centre[1] + distance * math.sin(angle)
        disc(draw, spot, reach * 0.06, mix(heart, WHITE_GLASS, 0.5 * number / florets))


def _stops(names: list[str]) -> list[Colour]:
    return [COLOURS[name] for name in names]
