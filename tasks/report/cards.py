"""Sample cards for the page: chosen with a seed, read by byte range, shown with caption and source."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tasks.report.catalogue import Array, Catalogue
from tasks.report.pictures import Sample, data_uri, find_oddities, read_samples, thumbnail
from tasks.report.search import NEVER_SHOWN
from tasks.report.text import clean_text, format_picture_size

THUMBNAIL_SIDE = 176
_LONGEST_CAPTION, _LONGEST_URL = 400, 300


@dataclass(frozen=True)
class Card:
    """A sample as the page shows it. ``picture`` is a data URI, or None if the picture cannot be decoded."""

    key: str
    uid: str
    shard: str
    split: str
    reason: str
    cause: str
    caption: str
    url: str
    size: str
    picture: str | None
    note: str = ""


@dataclass(frozen=True)
class PictureCheck:
    """Oddities found in a bounded number of pictures: ``counts`` and example ``rows`` by kind of oddity."""

    looked_at: int
    counts: dict[str, int]
    rows: dict[str, list[int]]


def choose(rows: Array, number: int, seed: int) -> list[int]:
    """Return at most ``number`` of ``rows`` in ascending order, drawn at random; the same seed draws the same rows."""
    if len(rows) <= number:
        return [int(row) for row in rows]
    return [int(row) for row in np.sort(np.random.default_rng(seed).choice(rows, number, replace=False))]


def choose_by_split(catalogue: Catalogue, number: int, seed: int) -> list[int]:
    """Return the rows of random samples of the dataset: up to a quarter from val, the rest from train."""
    split = catalogue.table["split"].combine_chunks().to_numpy(zero_copy_only=False)
    val = choose(np.flatnonzero(split == "val"), number // 4, seed)
    return [*choose(np.flatnonzero(split == "train"), number - len(val), seed), *val]


def choose_rejects(catalogue: Catalogue, number: int, seed: int) -> list[int]:
    """Return the rows of rejects, equally many for every reason.

    Samples on the exclusion list are never shown: their owners do not want them used.
    """
    rows = catalogue.rejected
    reasons = catalogue.table["reason"].combine_chunks().to_numpy(zero_copy_only=False)[rows]
    kinds = sorted(set(reasons) - {NEVER_SHOWN})
    each = max(number // max(len(kinds), 1), 1)
    return [row for kind in kinds for row in choose(rows[reasons == kind], each, seed)][:number]


Watch = Callable[[Iterable[Sample], int], Iterable[Sample]]
"""Wraps an iterable of samples and its length, and yields the same samples; used to report progress."""


def check_pictures(
    catalogue: Catalogue, rows: list[int], examples: int, watch: Watch = lambda samples, _: samples
) -> PictureCheck:
    """Check the pictures at ``rows`` for oddities; keep up to ``examples`` rows of each kind."""
    counts: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    for sample in watch(read_samples(catalogue, rows), len(rows)):
        for kind in find_oddities(sample.jpg):
            counts[kind] = counts.get(kind, 0) + 1
            found.setdefault(kind, []).append(sample.row)
    return PictureCheck(len(rows), counts, {kind: rows_[:examples] for kind, rows_ in found.items()})


def build_cards(catalogue: Catalogue, rows: Iterable[int], notes: dict[int, str] | None = None) -> list[Card]:
    """Build a card for each sample at ``rows``; ``notes`` are shown on the cards."""
    return list(_iter_cards(catalogue, list(rows), notes or {}))


def _iter_cards(catalogue: Catalogue, rows: list[int], notes: dict[int, str]) -> Iterator[Card]:
    for sample in read_samples(catalogue, rows):
        entry = catalogue.table.slice(sample.row, 1).to_pylist()[0]
        record = sample.record
        yield Card(
            key=entry["key"],
            uid=entry["uid"] or "",
            shard=catalogue.tars[entry["shard"]].name,
            split=entry["split"],
            reason=entry["reason"],
            cause=entry["cause"],
            caption=clean_text(sample.caption, _LONGEST_CAPTION),
            url=clean_text(str(record.get("url") or ""), _LONGEST_URL),
            size=format_picture_size(entry["width"], entry["height"], entry["jpg_size"]),
            picture=_thumbnail_uri(sample),
            note=notes.get(sample.row, ""),
        )


def _thumbnail_uri(sample: Sample) -> str | None:
    small = thumbnail(sample.jpg, THUMBNAIL_SIDE)
    return data_uri(small) if small else None
