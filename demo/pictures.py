"""The pictures of the demo's web by kind and number, identical on every machine."""

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
    """Return the kind of picture ``number``; all kinds are equally frequent."""
    return KINDS[number % len(KINDS)]
