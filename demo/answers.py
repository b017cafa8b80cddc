"""The responses of the demo's web. Each depends only on the URL's path, so the server keeps no state."""

import io
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, cast

from demo.formats import FORMATS, encoded_picture, encoded_shape
from demo.pictures import KINDS, kind_of
from demo.posters import not_available

Manner = Literal["whole", "slow", "cut", "cut-unannounced", "reset"]
"""``slow`` makes the client wait; ``cut`` stops half-way through the declared length; ``cut-unannounced``
declares no length; ``reset`` breaks the connection without an answer."""


@dataclass(frozen=True)
class Answer:
    """One HTTP response, and how it is sent."""

    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    manner: Manner = "whole"


SHAPES = ("1x1", "16x16", "2000x8", "6x1200")
STATUS_FAULTS = ("403", "404", "410", "500", "503")
FAULTS = (*STATUS_FAULTS, "html", "empty", "slow", "cut", "cut-unannounced", "reset")

MISSING = Answer(404, body=b"<!doctype html><title>404</title><p>There is nothing at this address.</p>")
PARKED = Answer(body=b"<!doctype html><title>Domain for sale</title><h1>This domain is for sale</h1>" + b"<p>" * 400)


def answer(path: str) -> Answer:
    """Return the response to a GET of ``path`` (percent-decoded); 404 for an unknown path.

    Paths are ``/<format>/<kind>/<number>.<extension>``, ``/shape/<width>x<height>/<number>.jpg``,
    ``/fault/<fault>/<number>.jpg``, ``/not-available/<number>.jpg``, and ``<kind>/<number>.jpg`` in the folders
    ``/moved``, ``/no-ai``, ``/my pictures`` and ``/bilder-für-alle``.
    """
    folders, _, name = path.strip("/").rpartition("/")
    stem, _, extension = name.partition(".")
    if path == "/":
        return Answer(body=_index())
    if not stem.isascii() or not stem.isdigit() or len(stem) > 9:
        return MISSING
    return _route(folders.split("/"), int(stem), extension)


def _route(folders: list[str], number: int, extension: str) -> Answer:
    match folders:
        case ["fault", fault] if fault in FAULTS:
            return _faulty(fault, number)
        case ["shape", shape] if shape in SHAPES:
            width, height = (int(side) for side in shape.split("x"))
            return Answer(content_type="image/jpeg", body=encoded_shape(width, height, kind_of(number), number))
        case ["not-available"]:
            return Answer(content_type="image/jpeg", body=_placeholder())
        case ["moved", kind] if kind in KINDS:
            return Answer(302, headers=(("Location", f"/jpeg/{kind}/{number}.jpg"),))
        case ["no-ai", kind] if kind in KINDS:
            return replace(_picture("jpeg", kind, number), headers=(("X-Robots-Tag", "noai, noimageai"),))
        case ["my pictures" | "bilder-für-alle", kind] if kind in KINDS:
            return _picture("jpeg", kind, number)
        case [name, kind] if name in FORMATS and kind in KINDS and extension == FORMATS[name].extension:
            return _picture(name, kind, number)
    return MISSING


def _picture(format_name: str, kind: str, number: int) -> Answer:
    body = encoded_picture(format_name, kind, number)
    return Answer(content_type=FORMATS[format_name].content_type, body=body)


def _faulty(fault: str, number: int) -> Answer:
    if fault in STATUS_FAULTS:
        return replace(MISSING, status=int(fault))
    if fault == "html":
        return PARKED
    if fault == "empty":
        return Answer(content_type="image/jpeg")
    return replace(_picture("jpeg", kind_of(number), number), manner=cast(Manner, fault))


@cache
def _placeholder() -> bytes:
    buffer = io.BytesIO()
    not_available().paint().save(buffer, "JPEG", quality=88)
    return buffer.getvalue()


def _index() -> bytes:
    shown = "".join(
        f"<h2>{kind}</h2>{''.join(f'<img height=160 src=/jpeg/{kind}/{number}.jpg>' for number in range(8))}"
        for kind in KINDS
    )
    return f"<!doctype html><title>The demo's web</title>{shown}".encode()
