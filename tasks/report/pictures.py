"""Bytes and pictures of single samples: read by byte range, scaled down and checked for oddities."""

import base64
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL import Image, UnidentifiedImageError

from tasks.report.catalogue import MEMBERS, Catalogue

_CHECK_SIZE = (96, 96)
"""Size in pixels of the small copy that is checked."""
_NEUTRAL, _SPECKS, _FLAT, _FILL_FROM, _FILL_TO, _BAND = 6, 0.01, 4.0, 120, 136, 0.125


@dataclass(frozen=True)
class Sample:
    """A sample's bytes; a member is empty if it is missing or its tar can no longer be read."""

    row: int
    jpg: bytes
    json_bytes: bytes
    txt: bytes

    @property
    def caption(self) -> str:
        """The caption; bytes that are not valid UTF-8 are replaced."""
        return self.txt.decode("utf-8", "replace")

    @property
    def record(self) -> dict[str, Any]:
        """The downloader's record, or an empty one if it cannot be read."""
        try:
            record = json.loads(self.json_bytes)
        except (ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}


def read_samples(catalogue: Catalogue, rows: Iterable[int], members: tuple[str, ...] = MEMBERS) -> Iterator[Sample]:
    """Read the samples at ``rows`` by byte range, in that order; neighbours in one tar share an open file.

    Only ``members`` are read, the others are empty. Samples of a missing tar are empty, so that the report does
    not fail.
    """
    rows = list(rows)
    ranges = catalogue.table.take(pa.array(rows, pa.int64())).to_pylist() if rows else []
    path, file = None, None
    try:
        for row, where in zip(rows, ranges, strict=True):
            tar = catalogue.tars[where["shard"]]
            if tar != path:
                if file:
                    file.close()
                path, file = tar, _open(tar)
            yield Sample(row, *(_read_member(file, where, name) if name in members else b"" for name in MEMBERS))
    finally:
        if file:
            file.close()


def _open(path: Path) -> io.BufferedReader | None:
    try:
        return path.open("rb")
    except OSError:
        return None


def _read_member(file: io.BufferedReader | None, where: dict[str, Any], name: str) -> bytes:
    offset, size = where[f"{name}_offset"], where[f"{name}_size"]
    if file is None or offset is None or size is None:
        return b""
    file.seek(offset)
    return file.read(size)


def thumbnail(jpg: bytes, side: int) -> bytes | None:
    """Scale a picture to a JPEG of at most ``side`` pixels a side; return None if it cannot be decoded."""
    picture = _decode(jpg, (side, side))
    if picture is None:
        return None
    picture.thumbnail((side, side))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=80)
    return out.getvalue()


def data_uri(jpeg: bytes) -> str:
    """Return the JPEG as a data URI."""
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()


def find_oddities(jpg: bytes) -> list[str]:
    """Return the oddities of a picture: any of ``undecodable``, ``grey``, ``uniform``, ``banded``.

    grey: no colour apart from JPEG noise. uniform: hardly any detail (standard deviation of each channel below
    4 of 255). banded: the lowest eighth or more is the flat mid-grey with which decoders fill a truncated JPEG.
    """
    picture = _decode(jpg, _CHECK_SIZE)
    if picture is None:
        return ["undecodable"]
    picture.thumbnail(_CHECK_SIZE, Image.Resampling.BOX)
    pixels = np.asarray(picture, dtype=np.int16)
    found = []
    if np.mean(pixels.max(axis=2) - pixels.min(axis=2) > _NEUTRAL) <= _SPECKS:
        found.append("grey")
    if pixels.std(axis=(0, 1)).max() < _FLAT:
        found.append("uniform")
    elif _count_filled_rows(pixels) >= _BAND * len(pixels):
        found.append("banded")
    return found


def _count_filled_rows(pixels: npt.NDArray[np.int16]) -> int:
    """Count the rows, from the bottom up, that are entirely mid-grey."""
    others = np.flatnonzero(np.any((pixels < _FILL_FROM) | (pixels > _FILL_TO), axis=(1, 2)))
    return len(pixels) - 1 - int(others[-1]) if len(others) else len(pixels)


def _decode(jpg: bytes, size: tuple[int, int]) -> Image.Image | None:
    """Decode the picture as RGB, at a fraction of its size if that is enough for ``size``."""
    try:
        with Image.open(io.BytesIO(jpg), formats=["JPEG"]) as picture:
            picture.draft("RGB", size)
            return picture.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
