"""Facts about all samples of a dataset, computed from tables only."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.report.catalogue import Array, Catalogue, rows_where
from tasks.report.raw_tables import read_raw_columns

_HOST = r"^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@?#]*@)?(?P<host>[^/:?#]+)"
_UNROTATED = {"", "Horizontal (normal)", "0", "1"}
_TOP = 20

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class RepeatedSource:
    """A response that several samples of the dataset share; ``row`` is the first of these samples."""

    sha256: str
    samples: int
    row: int


@dataclass(frozen=True)
class Facts:
    """Facts about the emitted samples.

    The fields below ``sources_known`` come from the downloader's tables; they are unset if it is False.
    """

    rows: Array
    width: Numbers
    height: Numbers
    jpg_bytes: Numbers
    caption_characters: Numbers
    sources_known: bool
    hosts: tuple[tuple[str, int], ...] = ()
    number_of_hosts: int = 0
    repeated: tuple[RepeatedSource, ...] = ()
    samples_with_repeated_source: int = 0
    samples_with_faces: int = 0
    faces: int = 0
    rotated: tuple[tuple[str, int], ...] = ()
    rotated_rows: tuple[tuple[int, str], ...] = ()


def gather_facts(catalogue: Catalogue) -> Facts:
    """Compute the facts about the emitted samples of ``catalogue``."""
    rows = catalogue.emitted
    table = catalogue.table.select(["width", "height", "jpg_size", "caption_characters"]).take(pa.array(rows))
    width, height, jpg_bytes, characters = (pc.fill_null(column, 0).to_numpy() for column in table.columns)
    raw = read_raw_columns(catalogue, ["url", "sha256", "exif", "faces"])
    known = _source_facts(raw.take(pa.array(rows)), rows) if raw is not None else {}
    return Facts(rows, width, height, jpg_bytes, characters, sources_known=raw is not None, **known)


def _source_facts(raw: pa.Table, rows: Array) -> dict[str, Any]:
    hosts = _count_values(pc.struct_field(pc.extract_regex(pc.utf8_lower(raw["url"]), pattern=_HOST), "host"))
    faces = pc.fill_null(raw["faces"], 0)
    return {
        "hosts": tuple(hosts[:_TOP]),
        "number_of_hosts": len(hosts),
        **_find_repeated(raw["sha256"], rows),
        "samples_with_faces": int(pc.sum(pc.greater(faces, 0)).as_py() or 0),
        "faces": int(pc.sum(faces).as_py() or 0),
        **_find_rotated(raw["exif"], rows),
    }


def _count_values(values: pa.ChunkedArray) -> list[tuple[str, int]]:
    """Return each value with its count, most frequent first; nulls are ignored."""
    counts = pc.value_counts(values.combine_chunks().drop_null())
    pairs = zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def _find_repeated(hashes: pa.ChunkedArray, rows: Array) -> dict[str, Any]:
    counts = pc.value_counts(hashes.combine_chunks().drop_null())
    many = counts.filter(pc.greater(counts.field("counts"), 1))
    numbers = many.field("counts").to_pylist()
    top = sorted(zip(many.field("values").to_pylist(), numbers, strict=True), key=lambda pair: (-pair[1], pair[0]))
    found = tuple(
        RepeatedSource(sha256, samples, int(rows[pc.index(hashes, sha256).as_py()])) for sha256, samples in top[:_TOP]
    )
    return {"repeated": found, "samples_with_repeated_source": sum(numbers)}


def _find_rotated(exif: pa.ChunkedArray, rows: Array) -> dict[str, Any]:
    """Find samples whose source has an EXIF rotation: the downloader drops the tag and does not rotate the pixels."""
    tagged = rows_where(pc.match_substring(exif, "Orientation"))
    kinds = [_orientation(text) for text in exif.take(pa.array(tagged)).to_pylist()]
    turned = [(int(rows[at]), kind) for at, kind in zip(tagged, kinds, strict=True) if kind not in _UNROTATED]
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
    """Format a percentage with one decimal, or a dash if ``whole`` is 0."""
    return f"{part / whole:.1%}" if whole else "-"


def median(numbers: Numbers) -> str:
    """Format the median, or a dash if ``numbers`` is empty."""
    return f"{float(np.median(numbers)):,.0f}" if len(numbers) else "-"
