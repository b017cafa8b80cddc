"""Painters of lettering: text posters, and the placeholder that hosts serve for a deleted picture."""

import random
from functools import partial

from PIL import Image, ImageDraw

from demo.drawing import (
    COLOURS,
    FINE,
    WHITE,
    Colour,
    Picture,
    Size,
    any_colours,
    any_size,
    disc,
    letters,
    mix,
    scaled,
    vertical_gradient,
    with_article,
)

FIRST = (
    "Grand",
    "Summer",
    "Midnight",
    "Open Air",
    "Local",
    "Annual",
    "Northern",
    "Little",
    "Famous",
    "Spring",
)
SECOND = ("Jazz", "Bread", "Chess", "Robot", "Garden", "Cinema", "Kite", "Lantern", "Cheese", "Ocean")
THIRD = ("Festival", "Market", "Week", "Parade", "Night", "Contest", "Fair", "Sale", "Tour", "Club")


def poster(dice: random.Random) -> Picture:
    """Describe three lines of large letters over a band of shapes."""
    size, (ground, ink) = any_size(dice), any_colours(dice, 2)
    words, year = (dice.choice(FIRST), dice.choice(SECOND), dice.choice(THIRD)), dice.randint(1950, 2025)
    shape = dice.choice(("circles", "stripes", "triangles"))
    lines = (*words, str(year))
    caption = f'{with_article(ground).capitalize()} poster with {ink} {shape} and the words "{" ".join(lines)}"'
    return Picture(size, caption, partial(_paint_poster, size, lines, shape, COLOURS[ground], COLOURS[ink]))


def _paint_poster(size: Size, lines: tuple[str, ...], shape: str, ground: Colour, ink: Colour) -> Image.Image:
    width, height = scaled(size, FINE)
    canvas = vertical_gradient((width, height), [mix(ground, WHITE, 0.12), mix(ground, (0, 0, 0), 0.15)])
    draw = ImageDraw.Draw(canvas)
    _draw_band(draw, shape, (width, height), ink)
    lettering = WHITE if sum(ground) < 420 else COLOURS["charcoal"]
    for number, line in enumerate(lines):
        _draw_line(
            draw,
            line,
            (width / 2, height * (0.13 + 0.165 * number)),
            (width * 0.86, height * 0.15),
            lettering,
        )
    return canvas.reduce(FINE)


def _draw_band(draw: ImageDraw.ImageDraw, shape: str, size: Size, ink: Colour) -> None:
    (width, height), count = size, 7
    step = width / count
    for number in range(count):
        x, colour = number * step, mix(ink, WHITE, 0.5 * number / count)
        if shape == "circles":
            disc(draw, (x + step / 2, height * 0.86), step * 0.42, colour)
        elif shape == "stripes":
            draw.polygon(
                [
                    (x, height),
                    (x + step * 0.5, height),
                    (x + step, height * 0.74),
                    (x + step * 0.5, height * 0.74),
                ],
                fill=colour,
            )
        else:
            draw.polygon([(x, height * 0.96), (x + step, height * 0.96), (x + step / 2, height * 0.74)], fill=colour)


def _draw_line(
    draw: ImageDraw.ImageDraw,
    text: str,
    centre: tuple[float, float],
    room: tuple[float, float],
    colour: Colour,
) -> None:
    """Draw ``text`` as large as the space allows."""
    unit = letters(100).getbbox(text)
    share = min(room[0] / (unit[2] - unit[0]), room[1] / 100)
    draw.text(centre, text, fill=colour, font=letters(max(6, int(100 * share))), anchor="mm")


def not_available() -> Picture:
    """Describe the placeholder that several dead links of one host share."""
    return Picture((300, 300), "", _paint_not_available)


def _paint_not_available() -> Image.Image:
    canvas = Image.new("RGB", (600, 600), (226, 228, 230))
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((150, 110, 450, 330), outline=(150, 154, 158), width=10)
    draw.polygon([(170, 315), (260, 210), (330, 280), (370, 240), (430, 315)], fill=(170, 174, 178))
    disc(draw, (380, 170), 26, (170, 174, 178))
    _draw_line(draw, "image not available", (300, 430), (480, 60), (120, 124, 128))
    return canvas.reduce(FINE)
