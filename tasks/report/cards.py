"""Samples as cards of the page: chosen by a seed, read by byte range, shown with caption and source."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tasks.report.catalogue import Array, Catalogue
from tasks.report.pictures import Sample, data_uri, look, read_samples, thumbnail
from tasks.report.search import NEVER_SHOWN
from tasks.report.text import readable, size_of

THUMBNAIL_SIDE = 176
_LONGEST_CAPTION, _LONGEST_URL = 400, 300


@dataclass(frozen=True)
class Card:
    """A sample as the page shows it. ``picture`` is a data URI, None if there is no picture to show."""

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
class Looks:
    """What a bounded number of pictures look like. ``counts`` and ``rows`` by what :func:`look` finds."""

    looked_at: int
    counts: dict[str, int]
    rows: dict[str, list[int]]


def choose(rows: Array, number: int, seed: int) -> list[int]:
    """At most ``number`` of ``rows``, by chance but always the same for a seed, in order."""
    if len(rows) <= number:
        return [int(row) for row in rows]
    return [int(row) for row in np.sort(np.random.default_rng(seed).choice(rows, number, replace=False))]


def choose_by_split(catalogue: Catalogue, number: int, seed: int) -> list[int]:
    """Samples of the dataset, by chance: a quarter val, as far as there are so many, the rest train."""
    split = catalogue.table["split"].combine_chunks().to_numpy(zero_copy_only=False)
    val = choose(np.flatnonzero(split == "val"), number // 4, seed)
    return [*choose(np.flatnonzero(split == "train"), number - len(val), seed), *val]


def choose_rejects(catalogue: Catalogue, number: int, seed: int) -> list[int]:
    """Rejects of every reason in like number. Those of the exclusion list are not shown: their owners said so."""
    rows = catalogue.rejected
    reasons = catalogue.table["reason"].combine_chunks().to_numpy(zero_copy_only=False)[rows]
    kinds = sorted(set(reasons) - {NEVER_SHOWN})
    each = max(number // max(len(kinds), 1), 1)
    return [row for kind in kinds for row in choose(rows[reasons == kind], each, seed)][:number]


Watch = Callable[[Iterable[Sample], int], Iterable[Sample]]
"""Passes on samples of a known number; what it does meanwhile (tell of the progress) is its own affair."""


def look_at(catalogue: Catalogue, rows: list[int], examples: int, watch: Watch = lambda samples, _: samples) -> Looks:
    """Look at the pictures at ``rows``; up to ``examples`` rows of each oddity are kept."""
    counts: dict[str, int] = {}
    found: dict[str, list[int]] = {}
    for sample in watch(read_samples(catalogue, rows), len(rows)):
        for kind in look(sample.jpg):
            counts[kind] = counts.get(kind, 0) + 1
            found.setdefault(kind, []).append(sample.row)
    return Looks(len(rows), counts, {kind: rows_[:examples] for kind, rows_ in found.items()})


def cards(catalogue: Catalogue, rows: Iterable[int], notes: dict[int, str] | None = None) -> list[Card]:
    """The samples at ``rows`` as cards; ``notes`` are shown with them."""
    return list(_cards(catalogue, list(rows), notes or {}))


def _cards(catalogue: Catalogue, rows: list[int], notes: dict[int, str]) -> Iterator[Card]:
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
            caption=readable(sample.caption, _LONGEST_CAPTION),
            url=readable(str(record.get("url") or ""), _LONGEST_URL),
            size=size_of(entry["width"], entry["height"], entry["jpg_size"]),
            picture=_picture(sample),
            note=notes.get(sample.row, ""),
        )


def _picture(sample: Sample) -> str | None:
    small = thumbnail(sample.jpg, THUMBNAIL_SIDE)
    return data_uri(small) if small else None
