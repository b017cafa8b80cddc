"""The search for later copies of a sample: on uids as pairs of 64-bit numbers, in memory or in parts on disk."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from tasks.io.files import write_bytes

Bools = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

PART_ROWS = 4_000_000
"""Approximate number of samples in one part of the search, which takes 0.3 GB of memory."""
_BUFFER_ROWS = 2_000_000
_CHUNK_ROWS = 1_000_000
_RECORD = np.dtype([("high", "<u8"), ("low", "<u8"), ("row", "<i8"), ("candidate", "?")])


def uid_numbers(uids: pa.ChunkedArray) -> tuple[Numbers, Numbers]:
    """Return the first and last 16 hex digits of each uid as numbers, 0 for null. Raises ValueError for other text."""
    text = "".join(pc.fill_null(uids, "0" * 32).to_pylist())
    halves = np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64).reshape(len(uids), 2)
    return halves[:, 0], halves[:, 1]


def later_copies(high: Numbers, low: Numbers, candidate: Bools) -> Rows:
    """Return the positions, ascending, of all uids that come after the first candidate with the same uid.

    A candidate is a sample that only an earlier copy can reject; only candidates turn later samples into copies.
    """
    rows = np.flatnonzero(_occurs_again(high))
    rows = rows[np.lexsort((low[rows], high[rows]))]  # stable: equal uids stay in order
    if not len(rows):
        return rows
    new = np.r_[True, (np.diff(high[rows]) != 0) | (np.diff(low[rows]) != 0)]
    first = np.minimum.reduceat(np.where(candidate[rows], rows, len(high)), np.flatnonzero(new))
    return np.sort(rows[rows > first[np.cumsum(new) - 1]])


def _occurs_again(values: Numbers) -> Bools:
    """Return which values occur more than once. Sorting values is much faster than sorting positions."""
    ordered = np.sort(values)
    repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    del ordered
    found = np.zeros(len(values), dtype=np.bool_)
    if len(repeated):
        for start in range(0, len(values), _CHUNK_ROWS):
            chunk = values[start : start + _CHUNK_ROWS]
            place = np.minimum(np.searchsorted(repeated, chunk), len(repeated) - 1)
            found[start : start + _CHUNK_ROWS] = repeated[place] == chunk
    return found


class Uids(Protocol):
    """Collector of the uids of all samples in selection order, which finds the later copies."""

    def add(self, start: int, high: Numbers, low: Numbers, sound: Bools, candidate: Bools) -> None:
        """Add the samples from row ``start`` on. ``sound``: those whose uid counts; ``candidate``: see later_copies."""

    def jobs(self) -> "list[CopiesJob]":
        """Return the jobs that workers may run before ``copies``; call it after adding all uids."""

    def copies(self) -> Iterator[Rows]:
        """Yield the rows of all later copies, in pieces."""


class UidsInMemory:
    """Search in memory, for up to tens of millions of samples: 18 bytes per sample, 27 during the search."""

    def __init__(self, rows: int) -> None:
        self._high, self._low = np.empty(rows, dtype=np.uint64), np.empty(rows, dtype=np.uint64)
        self._sound, self._candidate = np.empty(rows, dtype=np.bool_), np.empty(rows, dtype=np.bool_)

    def add(self, start: int, high: Numbers, low: Numbers, sound: Bools, candidate: Bools) -> None:
        """Add the samples from row ``start`` on (see Uids)."""
        here = slice(start, start + len(high))
        self._high[here], self._low[here], self._sound[here], self._candidate[here] = high, low, sound, candidate

    def jobs(self) -> "list[CopiesJob]":
        """Return an empty list: there are no parts."""
        return []

    def copies(self) -> Iterator[Rows]:
        """Yield the rows of all later copies."""
        rows = later_copies(self._high, self._low, self._candidate)
        yield rows[self._sound[rows]]


class CopiesJob(BaseModel):
    """The search of one part of the uids: those whose first bits are ``part``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    part: int

    @property
    def name(self) -> str:
        """Name for the task run."""
        return f"{self.part:04x}"

    @property
    def uids(self) -> Path:
        """Path of the part's uids, as records in selection order."""
        return self.folder / f"uids-{self.name}"

    @property
    def rows(self) -> Path:
        """Path of the rows of the part's later copies."""
        return self.folder / f"copies-{self.name}"

    def finished(self) -> Path | None:
        """Return the result's path if it exists. It belongs to this plan: each plan starts with an empty folder."""
        return self.rows if self.rows.exists() else None

    def cache_parts(self) -> None:
        """Return None: the search is not cached."""

    def __str__(self) -> str:
        return f"search for copies in {self.uids}"


def find_copies(job: CopiesJob) -> None:
    """Search one part and write the rows of later copies (little-endian int64). Raises OSError."""
    if job.finished() is None:
        records = np.fromfile(job.uids, dtype=_RECORD)
        places = later_copies(records["high"], records["low"], records["candidate"])
        write_bytes(job.rows, records["row"][places].astype("<i8").tobytes())


class UidsOnDisk:
    """Search in parts by the first bits of the uid: 25 bytes per sample on disk, one part in memory at a time."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder = folder
        self._bits = max(1, math.ceil(math.log2(max(rows, 1) / PART_ROWS)))
        self._waiting: list[npt.NDArray[np.void]] = []
        self._waiting_rows = 0
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def add(self, start: int, high: Numbers, low: Numbers, sound: Bools, candidate: Bools) -> None:
        """Add the samples from row ``start`` on (see Uids)."""
        records = np.empty(len(high), dtype=_RECORD)
        records["high"], records["low"], records["candidate"] = high, low, candidate
        records["row"] = np.arange(start, start + len(high))
        self._waiting.append(records[sound])
        self._waiting_rows += len(self._waiting[-1])
        if self._waiting_rows >= _BUFFER_ROWS:
            self._flush()

    def jobs(self) -> list[CopiesJob]:
        """Return a job for every part that has uids."""
        self._flush()
        parts = sorted(int(path.name.removeprefix("uids-"), 16) for path in self.folder.glob("uids-*"))
        return [CopiesJob(folder=self.folder, part=part) for part in parts]

    def copies(self) -> Iterator[Rows]:
        """Yield the rows of all later copies; search the parts that no worker has searched."""
        for job in self.jobs():
            find_copies(job)
            yield np.fromfile(job.rows, dtype="<i8").astype(np.int64)

    def _flush(self) -> None:
        if not self._waiting:
            return
        records = np.concatenate(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        part = (records["high"] >> np.uint64(64 - self._bits)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part, minlength=2**self._bits))
        for number, records_of_part in enumerate(np.split(records[order], ends[:-1])):
            if len(records_of_part):
                with CopiesJob(folder=self.folder, part=number).uids.open("ab") as file:
                    file.write(records_of_part.tobytes())
