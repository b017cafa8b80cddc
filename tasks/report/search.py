"""Search in a catalogue: by text in uid, key or caption, by split, shard, reject reason and size."""

import threading
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tasks.report.catalogue import Array, Catalogue, rows_where
from tasks.report.pictures import read_samples
from tasks.report.raw_tables import read_raw_columns

NEVER_SHOWN = "excluded_uid"
"""Reject reason of samples on the exclusion list: their owners do not want them used."""


def _none_if_blank(value: object) -> object:
    return None if value == "" else value


Pixels = Annotated[Annotated[int, Field(ge=0, le=1_000_000)] | None, BeforeValidator(_none_if_blank)]


class Query(BaseModel):
    """A search. Split ``rejects`` selects samples outside both splits; sizes are of the longer side, in pixels."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    text: Annotated[str, Field(max_length=200)] = ""
    split: Literal["", "train", "val", "rejects"] = ""
    shard: Annotated[str, Field(max_length=255)] = ""
    reason: Annotated[str, Field(max_length=255)] = ""
    smallest: Pixels = None
    largest: Pixels = None
    page: Annotated[int, Field(ge=1, le=10_000_000)] = 1


class Finder:
    """Searches a catalogue; captions are read at the first text search and cached."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.shown = pc.not_equal(catalogue.table["reason"], NEVER_SHOWN)
        self._captions: pa.ChunkedArray | None = None
        self._lock = threading.Lock()

    @property
    def shards(self) -> list[str]:
        """Names of the raw tars."""
        return [tar.name for tar in self.catalogue.tars]

    @property
    def reasons(self) -> list[str]:
        """Reject reasons that can be searched for."""
        return sorted(set(pc.unique(self.catalogue.table["reason"]).to_pylist()) - {"", NEVER_SHOWN})

    def may_show(self, row: int) -> bool:
        """Return whether the row exists and may be shown."""
        return 0 <= row < len(self.catalogue) and bool(self.shown[row].as_py())

    def find(self, query: Query) -> Array:
        """Return the rows that match ``query``, in order."""
        table, mask = self.catalogue.table, self.shown
        if query.split:
            mask = pc.and_(mask, pc.equal(table["split"], "" if query.split == "rejects" else query.split))
        if query.reason:
            mask = pc.and_(mask, pc.equal(table["reason"], query.reason))
        if query.shard:
            number = self.shards.index(query.shard) if query.shard in self.shards else -1
            mask = pc.and_(mask, pc.equal(table["shard"], number))
        longer = pc.max_element_wise(table["width"], table["height"])
        if query.smallest is not None:
            mask = pc.and_(mask, pc.greater_equal(longer, query.smallest))
        if query.largest is not None:
            mask = pc.and_(mask, pc.less_equal(longer, query.largest))
        rows = rows_where(mask)
        return rows[self._matches(rows, query.text.strip())] if query.text.strip() else rows

    def _matches(self, rows: Array, text: str) -> Array:
        at = pa.array(rows)
        fields = [self.catalogue.table[name].take(at) for name in ("uid", "key")]
        found = np.zeros(len(rows), dtype=bool)
        for field in [*fields, self._read_captions().take(at)]:
            hit = pc.match_substring(field, text, ignore_case=True)
            found |= pc.fill_null(hit, False).to_numpy()
        return np.flatnonzero(found)

    def _read_captions(self) -> pa.ChunkedArray:
        with self._lock:
            if self._captions is None:
                self._captions = _load_captions(self.catalogue)
            return self._captions


def _load_captions(catalogue: Catalogue) -> pa.ChunkedArray:
    """Read all captions from the downloader's tables, or from the samples if there are none."""
    table = read_raw_columns(catalogue, ["caption"])
    if table is not None:
        return table["caption"]
    samples = read_samples(catalogue, range(len(catalogue)), members=("txt",))
    return pa.chunked_array([[sample.caption for sample in samples]], pa.string())
