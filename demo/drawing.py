"""Shared parts of the painters: the picture value, named colours, gradients, glows, reflections and lettering."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Size = tuple[int, int]
"""Width and height in pixels."""
Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a face as shares of width and height, as in DataComp's ``face_bboxes``."""

FINE = 2
"""Shapes are drawn this many times larger and then reduced, since ImageDraw does not smooth edges."""

SIZES: tuple[Size, ...] = (
    (480, 360),
    (360, 480),
    (400, 400),
    (640, 360),
    (320, 240),
    (240, 320),
    (512, 384),
    (200, 200),
    (450, 300),
    (600, 400),
    (300, 450),
)
LARGE_SIZES: tuple[Size, ...] = ((1200, 800), (800, 1000), (960, 540))
LARGE_SHARE = 0.06

COLOURS: dict[str, Colour] = {
    "crimson": (196, 38, 60),
    "coral": (250, 121, 98),
    "orange": (244, 146, 42),
    "golden": (245, 196, 66),
    "olive": (132, 142, 60),
    "emerald": (34, 150, 98),
    "teal": (24, 134, 142),
    "turquoise": (72, 202, 196),
    "sky blue": (98, 176, 236),
    "navy": (32, 52, 110),
    "indigo": (72, 60, 150),
    "violet": (142, 92, 190),
    "magenta": (206, 62, 148),
    "pink": (246, 164, 188),
    "chocolate": (110, 66, 44),
    "cream": (250, 240, 214),
    "white": (248, 248, 246),
    "charcoal": (44, 48, 56),
}
WHITE = COLOURS["white"]


@dataclass(frozen=True)
class Picture:
    """A picture described but not yet painted: describing is cheap, painting takes milliseconds."""

    size: Size
    caption: str
    paint: Callable[[], Image.Image]
    faces: tuple[Box, ...] = ()


def any_size(dice: random.Random) -> Size:
    """Return a random common size, sometimes a large one that the downloader has to shrink."""
    return dice.choice(LARGE_SIZES if dice.random() < LARGE_SHARE else SIZES)


def any_colours(dice: random.Random, count: int) -> list[str]:
    """Return the names of ``count`` different colours."""
    return dice.sample(list(COLOURS), count)


def scaled(size: Size, factor: float) -> Size:
    """Return ``size`` times ``factor``, at least one pixel in each direction."""
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Interpolate between two colours; ``share`` is from 0 (``first``) to 1 (``second``)."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def a_few(count: int, one: str) -> str:
    """Return a count with its noun: ``one hill``, ``three hills``, ``21 petals``."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    number = words[count] if count < len(words) else str(count)
    return f"{number} {one if count == 1 else one + 's'}"


def with_article(noun: str) -> str:
    """Return the noun with its indefinite article: ``an orange``, ``a lake``."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def coloured(values: np.ndarray, stops: Sequence[Colour]) -> Image.Image:
    """Return an image of values from 0 to 1 (height x width), coloured along the evenly spaced ``stops``."""
    positions = np.linspace(0, 255, len(stops))
    table = [np.interp(np.arange(256), positions, [stop[band] for stop in stops]) for band in range(3)]
    lookup = np.stack(table, axis=-1).astype(np.uint8)
    return Image.fromarray(lookup[np.clip(values * 255, 0, 255).astype(np.uint8)])


def vertical_gradient(size: Size, stops: Sequence[Colour]) -> Image.Image:
    """Return an image with colours from the first stop at the top to the last at the bottom."""
    return coloured(np.linspace(0, 1, 256).reshape(-1, 1), stops).resize(size, Image.Resampling.BILINEAR)


def grid(size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Return column (1 x width) and row (height x 1) coordinates in pixels, for broadcasting."""
    return np.arange(size[0], dtype=np.float32).reshape(1, -1), np.arange(size[1], dtype=np.float32).reshape(-1, 1)


def glow(canvas: Image.Image, centre: tuple[float, float], radius: float, colour: Colour, strength: float) -> None:
    """Lighten a round patch of ``canvas``, most at its centre; ``strength`` is from 0 to 1."""
    side = max(2, round(2 * radius))
    # The stock gradient is 0 in the middle, 181 at the middle of each edge and 255 in the corners.
    fades = [max(0, 1 - level / 180) ** 2 for level in range(256)]
    mask = Image.radial_gradient("L").point([round(255 * strength * fade) for fade in fades])
    place = round(centre[0] - radius), round(centre[1] - radius)
    canvas.paste(colour, (*place, place[0] + side, place[1] + side), mask.resize((side, side)))


def disc(draw: ImageDraw.ImageDraw, centre: tuple[float, float], radius: float, colour: Colour) -> None:
    """Draw a filled circle."""
    x, y = centre
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)


def reflect(canvas: Image.Image, shore: int, water: Colour, noise: np.random.Generator) -> None:
    """Fill ``canvas`` below row ``shore`` with a rippled mirror image of the part above it."""
    width, height = canvas.size
    above = canvas.crop((0, max(0, 2 * shore - height), width, shore)).transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    pixels = np.asarray(above.resize((width, height - shore)))
    rows = np.arange(height - shore)
    drift = np.sin(rows * 0.35 + noise.random(len(rows)) * 0.8) * (2 + rows * 0.03)
    columns = (np.arange(width).reshape(1, -1) + drift.astype(int).reshape(-1, 1)) % width
    rippled = Image.fromarray(pixels[rows.reshape(-1, 1), columns])
    canvas.paste(Image.blend(rippled, Image.new("RGB", rippled.size, water), 0.35), (0, shore))


@cache
def letters(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's built-in font (Latin letters only) at ``height`` pixels; it needs no installed font."""
    return ImageFont.load_default(height)
