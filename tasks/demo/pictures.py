"""The pictures of the demo's web, by kind and number: the same ones on every machine."""

import random
from collections.abc import Callable

from tasks.demo.cities import city
from tasks.demo.drawing import Picture
from tasks.demo.patterns import flower, fractal, mosaic, waves
from tasks.demo.people import portrait
from tasks.demo.planets import planet
from tasks.demo.posters import poster
from tasks.demo.scenery import balloons, landscape

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
