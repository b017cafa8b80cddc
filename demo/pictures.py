"""The pictures of the demo's web, by kind and number: the same ones on every machine."""

import random
from collections.abc import Callable

from demo.cities import city
from demo.drawing import Picture
from demo.patterns import flower, fractal, mosaic, waves
from demo.people import portrait
from demo.planets import planet
from demo.posters import poster
from demo.scenery import balloons, landscape

PAINTERS: dict[str, Callable[[random.Random], Picture]] = {
    "landscape": landscape,
    "city": city,
    "portrait": portrait,
    "flower": flower,
    "fractal": fractal,
    "mosaic": mosaic,
    "balloons": balloons,
    "waves": waves,
    "planet": planet,
    "poster": poster,
}
KINDS = tuple(PAINTERS)


def picture(kind: str, number: int) -> Picture:
    """Describe picture ``number`` of ``kind``, ready to be painted. Raises KeyError for an unknown kind."""
    return PAINTERS[kind](random.Random(f"{kind}/{number}"))


def kind_of(number: int) -> str:
    """The kind whose turn it is at ``number``: all kinds come equally often."""
    return KINDS[number % len(KINDS)]
