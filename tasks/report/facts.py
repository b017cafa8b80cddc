"""Facts about all samples of a dataset, from tables alone."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.report.catalogue import Array, Catalogue, rows_where
from tasks.report.raw_tables import raw_columns

_HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@?#]*@)?(?P<host>[^/:?#]+)"
_UPRIGHT = {"", "Horizontal (normal)", "0", "1"}
_TOP = 20

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Repeated:
    """A response that came for several samples of the dataset; ``row`` is the first of them."""

    sha256: str
    samples: int
    row: int


@dataclass(frozen=True)
class Facts:
    """Facts about the samples that are in the dataset. Those below ``sources_known`` come from the downloader's
    tables and say nothing where it is False."""

    rows: Array
    width: Numbers
    height: Numbers
    jpg_bytes: Numbers
    caption_characters: Numbers
    sources_known: bool
    hosts: tuple[tuple[str, int], ...] = ()
    number_of_hosts: int = 0
    repeated: tuple[Repeated, ...] = ()
    samples_with_repeated_source: int = 0
    samples_with_faces: int = 0
    faces: int = 0
    rotated: tuple[tuple[str, int], ...] = ()
    rotated_rows: tuple[tuple[int, str], ...] = ()


def gather_facts(catalogue: Catalogue) -> Facts:
    """The facts about the emitted samples of ``catalogue``."""
    rows = catalogue.emitted
    table = catalogue.table.select(["width", "height", "jpg_size", "caption_characters"]).take(pa.array(rows))
    width, height, jpg_bytes, characters = (pc.fill_null(column, 0).to_numpy() for column in table.columns)
    raw = raw_columns(catalogue, ["url", "sha256", "exif", "faces"])
    known = _sources(raw.take(pa.array(rows)), rows) if raw is not None else {}
    return Facts(rows, width, height, jpg_bytes, characters, sources_known=raw is not None, **known)


def _sources(raw: pa.Table, rows: Array) -> dict[str, Any]:
    hosts = _counted(pc.struct_field(pc.extract_regex(pc.utf8_lower(raw["url"]), pattern=_HOST), "host"))
    faces = pc.fill_null(raw["faces"], 0)
    return {
        "hosts": tuple(hosts[:_TOP]),
        "number_of_hosts": len(hosts),
        **_repeated(raw["sha256"], rows),
        "samples_with_faces": int(pc.sum(pc.greater(faces, 0)).as_py() or 0),
        "faces": int(pc.sum(faces).as_py() or 0),
        **_rotated(raw["exif"], rows),
    }


def _counted(values: pa.ChunkedArray) -> list[tuple[str, int]]:
    """Values and how often each is there, the most frequent first; null is left out."""
    counts = pc.value_counts(values.combine_chunks().drop_null())
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def _repeated(hashes: pa.ChunkedArray, rows: Array) -> dict[str, Any]:
    counts = pc.value_counts(hashes.combine_chunks().drop_null())
    many = counts.filter(pc.greater(counts.field("counts"), 1))
    numbers = many.field("counts").to_pylist()
    top = sorted(zip(many.field("values").to_pylist(), numbers, strict=True), key=lambda pair: (-pair[1], pair[0]))
    found = tuple(
        Repeated(sha256, samples, int(rows[pc.index(hashes, sha256).as_py()])) for sha256, samples in top[:_TOP]
    )
    return {"repeated": found, "samples_with_repeated_source": sum(numbers)}


def _rotated(exif: pa.ChunkedArray, rows: Array) -> dict[str, Any]:
    """Samples whose source said that it must be turned: the downloader stores them unturned, without the tag."""
    tagged = rows_where(pc.match_substring(exif, "Orientation"))
    kinds = [_orientation(text) for text in exif.take(pa.array(tagged)).to_pylist()]
    turned = [(int(rows[at]), kind) for at, kind in zip(tagged, kinds, strict=True) if kind not in _UPRIGHT]
    counted = Counter(kind for _, kind in turned)
    return {
        "rotated": tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0]))),
        "rotated_rows": tuple(turned),
    }


def _orientation(exif: str) -> str:
    try:
        return str(json.loads(exif).get("Image Orientation", "")).strip()
    except (ValueError, AttributeError):
        return ""


def share(part: int, whole: int) -> str:
    """A percentage with one digit, or a dash if there is no whole."""
    return f"{part / whole:.1%}" if whole else "-"


def median(numbers: Numbers) -> str:
    """The median as people write it, or a dash if there are no numbers."""
    return f"{float(np.median(numbers)):,.0f}" if len(numbers) else "-"
