"""Painter of portraits: simple faces with known boxes, as input for face blurring."""

import random
from dataclasses import dataclass
from functools import partial

from PIL import Image, ImageDraw

from demo.drawing import (
    COLOURS,
    FINE,
    WHITE,
    Box,
    Colour,
    Picture,
    Size,
    any_colours,
    any_size,
    mix,
    scaled,
    vertical_gradient,
    with_article,
)

SKINS: tuple[Colour, ...] = ((250, 218, 190), (232, 184, 144), (198, 142, 102), (150, 100, 68), (98, 62, 44))
HAIRS: dict[str, Colour] = {
    "black": (34, 28, 30),
    "brown": (92, 58, 36),
    "red": (172, 76, 38),
    "blond": (226, 186, 106),
    "grey": (168, 168, 170),
}
FACE_HEIGHT = 0.5
"""Height of a face as a share of the picture's, if its width fits."""
FACE_WIDTH = 0.6
"""Maximum share of a person's width that the face takes."""
FACE_SHAPE = 0.8
"""Ratio of a face's width to its height."""


@dataclass(frozen=True)
class Person:
    """The appearance of one person."""

    skin: Colour
    hair: str
    long_hair: bool
    glasses: bool
    hat: bool
    smiles: bool
    clothes: str


def portrait(dice: random.Random) -> Picture:
    """Describe one to three people who look at the viewer."""
    size, count, ground = any_size(dice), dice.choice((1, 1, 1, 2, 2, 3)), any_colours(dice, 1)[0]
    people = tuple(_any_person(dice) for _ in range(count))
    faces = tuple(_face_box(size, number, count) for number in range(count))
    who = {1: "A portrait of", 2: "Two friends:", 3: "A family picture:"}[count]
    caption = f"{who} {'; '.join(_describe(person) for person in people)}, before {with_article(ground)} wall"
    return Picture(size, caption, partial(_paint_portrait, size, people, faces, COLOURS[ground]), faces)


def _any_person(dice: random.Random) -> Person:
    yes = [dice.random() for _ in range(4)]
    return Person(
        skin=dice.choice(SKINS),
        hair=dice.choice(list(HAIRS)),
        long_hair=yes[0] < 0.5,
        glasses=yes[1] < 0.35,
        hat=yes[2] < 0.25,
        smiles=yes[3] < 0.7,
        clothes=any_colours(dice, 1)[0],
    )


def _describe(person: Person) -> str:
    mood = "smiling" if person.smiles else "serious"
    extras = [word for word, there in (("glasses", person.glasses), ("a hat", person.hat)) if there]
    worn = " and ".join([*extras, with_article(f"{person.clothes} shirt")])
    length = "long" if person.long_hair else "short"
    return f"a {mood} person with {length} {person.hair} hair, wearing {worn}"


def _face_box(size: Size, number: int, count: int) -> Box:
    width, height = size
    tall = min(height * FACE_HEIGHT, width / count * FACE_WIDTH / FACE_SHAPE)
    half, middle, top = tall * FACE_SHAPE / 2 / width, (number + 0.5) / count, 0.45 - tall / 2 / height
    return middle - half, top, middle + half, top + tall / height


def _paint_portrait(size: Size, people: tuple[Person, ...], faces: tuple[Box, ...], ground: Colour) -> Image.Image:
    width, height = scaled(size, FINE)
    canvas = vertical_gradient((width, height), [mix(ground, WHITE, 0.55), mix(ground, (20, 20, 30), 0.25)])
    draw = ImageDraw.Draw(canvas)
    for person, (left, top, right, bottom) in zip(people, faces, strict=True):
        _draw_person(draw, person, (left * width, top * height, right * width, bottom * height), height)
    return canvas.reduce(FINE)


def _draw_person(draw: ImageDraw.ImageDraw, person: Person, face: Box, height: int) -> None:
    left, top, right, bottom = face
    wide, tall = right - left, bottom - top
    hair, shade = HAIRS[person.hair], mix(person.skin, (60, 30, 30), 0.25)
    _draw_hair_behind(draw, person, face)
    shirt = (left - 0.22 * wide, bottom + 0.1 * tall, right + 0.22 * wide, height + 0.6 * tall)
    draw.rectangle((left + 0.34 * wide, bottom - 0.2 * tall, right - 0.34 * wide, bottom + 0.2 * tall), fill=shade)
    draw.ellipse(shirt, fill=COLOURS[person.clothes])
    draw.ellipse((left, top, right, bottom), fill=person.skin)
    draw.chord((left - 0.02 * wide, top - 0.06 * tall, right + 0.02 * wide, top + 0.62 * tall), 190, 350, fill=hair)
    _draw_features(draw, person, face, shade)
    if person.hat:
        _draw_hat(draw, person, face)


def _draw_hair_behind(draw: ImageDraw.ImageDraw, person: Person, face: Box) -> None:
    left, top, right, bottom = face
    wide, tall = right - left, bottom - top
    length = bottom + 0.28 * tall if person.long_hair else top + 0.6 * tall
    box = (left - 0.1 * wide, top - 0.12 * tall, right + 0.1 * wide, length)
    draw.rounded_rectangle(box, radius=0.45 * wide, fill=mix(HAIRS[person.hair], (0, 0, 0), 0.15))


def _draw_features(draw: ImageDraw.ImageDraw, person: Person, face: Box, shade: Colour) -> None:
    left, top, right, bottom = face
    wide, tall, middle = right - left, bottom - top, (left + right) / 2
    eye, line = top + 0.46 * tall, max(FINE, round(wide * 0.018))
    for x in (middle - 0.2 * wide, middle + 0.2 * wide):
        _oval(draw, (x, eye), 0.09 * wide, 0.045 * tall, WHITE)
        _oval(draw, (x, eye), 0.042 * wide, 0.042 * wide, (50, 40, 40))
        brow = (x - 0.11 * wide, eye - 0.13 * tall, x + 0.11 * wide, eye + 0.03 * tall)
        draw.arc(brow, 205, 335, fill=mix(HAIRS[person.hair], (0, 0, 0), 0.3), width=2 * line)
        if person.glasses:
            rim = 0.15 * wide
            draw.ellipse((x - rim, eye - rim, x + rim, eye + rim), outline=(30, 30, 36), width=line)
    if person.glasses:
        draw.line((middle - 0.05 * wide, eye, middle + 0.05 * wide, eye), fill=(30, 30, 36), width=line)
    draw.line(
        [
            (middle, eye + 0.05 * tall),
            (middle - 0.05 * wide, eye + 0.2 * tall),
            (middle + 0.03 * wide, eye + 0.2 * tall),
        ],
        fill=shade,
        width=line,
    )
    mouth = (middle - 0.17 * wide, top + 0.66 * tall, middle + 0.17 * wide, top + 0.84 * tall)
    if person.smiles:
        draw.chord(mouth, 10, 170, fill=(176, 56, 62))
    else:
        draw.line((mouth[0], top + 0.78 * tall, mouth[2], top + 0.78 * tall), fill=(150, 60, 60), width=2 * line)


def _draw_hat(draw: ImageDraw.ImageDraw, person: Person, face: Box) -> None:
    left, top, right, bottom = face
    wide, tall = right - left, bottom - top
    felt = mix(COLOURS[person.clothes], (20, 20, 20), 0.4)
    draw.rounded_rectangle(
        (left + 0.1 * wide, top - 0.28 * tall, right - 0.1 * wide, top + 0.2 * tall),
        radius=0.12 * wide,
        fill=felt,
    )
    draw.ellipse(
        (left - 0.22 * wide, top + 0.08 * tall, right + 0.22 * wide, top + 0.24 * tall),
        fill=mix(felt, (0, 0, 0), 0.2),
    )


def _oval(
    draw: ImageDraw.ImageDraw,
    centre: tuple[float, float],
    half_width: float,
    half_height: float,
    fill: Colour,
) -> None:
    x, y = centre
    draw.ellipse((x - half_width, y - half_height, x + half_width, y + half_height), fill=fill)
