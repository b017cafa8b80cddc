"""The samples as the plan needs them: read from the scan tables, a few bytes per sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.convert.models import ScanSummary
from tasks.convert.oddities import ODD_COLUMNS, leave_out
from tasks.convert.uids import Bools, Numbers, Uids, uid_numbers
from tasks.io.fingerprints import Fingerprint

EMITTED, DUPLICATE, EXCLUDED = range(3)
"""Codes of the fixed reasons."""

_COLUMNS = ["uid", "before_uid", "after_uid", "split_hash"]


@dataclass(frozen=True)
class Scan:
    """A scanned shard as input of the plan."""

    summary: ScanSummary
    fingerprint: Fingerprint
    table_path: Path
    dropped: frozenset[str] = frozenset()
    """Kinds of odd samples that are rejected (see tasks/convert/oddities.py)."""
    accept_gap: bool = False
    """Whether samples may be missing at the end of the tar."""

    def fault_before(self, row: int | None) -> str | None:
        """Return what is wrong with the tar before ``row`` (None: with the whole tar), or None if it is intact."""
        summary = self.summary
        if summary.samples_before_trouble is not None:
            return summary.trouble if row is None or row > summary.samples_before_trouble else None
        return summary.gap if row is None or row > summary.samples else None

    def read(self, columns: list[str]) -> pa.Table:
        """Read columns of the scan table; samples of dropped kinds have their reject reason set."""
        wanted = list(dict.fromkeys([*columns, *(ODD_COLUMNS if self.dropped else [])]))
        table = pq.ParquetFile(self.table_path).read(columns=wanted, use_threads=False)
        return leave_out(table, self.dropped).select(columns)


class PlanRows:
    """All samples of some shards in selection order. ``starts``: the first row of each shard, and the end.

    ``code``: the reason of each sample, an index into ``reasons`` (4 bytes), without regard to copies until
    ``settle_copies``; ``val``: whether its uid belongs to the val split (1 byte); ``uids``: the uids.
    """

    def __init__(self, scans: Sequence[Scan], uids: Uids, fraction: float, excluded: frozenset[str]) -> None:
        self.uids = uids
        self._code_of = {"emitted": EMITTED, "duplicate_uid": DUPLICATE, "excluded_uid": EXCLUDED}
        self.starts = np.cumsum([0, *(scan.summary.samples for scan in scans)])
        self.code = np.empty(self.starts[-1], dtype=np.int32)
        self.val = np.empty(self.starts[-1], dtype=np.bool_)
        self._excluded = excluded
        self._excluded_high = np.unique(uid_numbers(pa.chunked_array([sorted(excluded)], pa.string()))[0])
        for scan, start in zip(scans, self.starts[:-1], strict=True):
            self._read(scan, int(start), fraction)

    @property
    def reasons(self) -> list[str]:
        """Reasons in the order of their codes."""
        return list(self._code_of)

    def settle_copies(self) -> None:
        """Mark the samples that come after an earlier copy; ``code`` is final afterwards."""
        for rows in self.uids.copies():
            self.code[rows] = DUPLICATE

    def _read(self, scan: Scan, start: int, fraction: float) -> None:
        table = scan.read(_COLUMNS)
        here = slice(start, start + table.num_rows)
        before, after = (self._codes(table.column(name)) for name in ("before_uid", "after_uid"))
        high, low = uid_numbers(table.column("uid"))
        sound = before == EMITTED
        self.code[here] = np.select([~sound, self._listed(table.column("uid"), high)], [before, EXCLUDED], after)
        hashes = pc.fill_null(table.column("split_hash"), 0).to_numpy()
        self.val[here] = hashes / np.float64(2**64) < fraction
        self.uids.add(start, high, low, sound, self.code[here] == EMITTED)

    def _codes(self, column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """Return the codes of a column of reasons; null is EMITTED."""
        codes = np.full(len(column), EMITTED, dtype=np.int32)
        given = pc.drop_null(column).dictionary_encode().combine_chunks()
        if len(given):
            known = self._code_of
            meaning = [known.setdefault(reason, len(known)) for reason in given.dictionary.to_pylist()]
            codes[pc.is_valid(column).to_numpy()] = np.array(meaning, dtype=np.int32)[given.indices.to_numpy()]
        return codes

    def _listed(self, uids: pa.ChunkedArray, high: Numbers) -> Bools:
        """Return which uids are on the exclusion list."""
        listed = np.zeros(len(high), dtype=np.bool_)
        if self._excluded:
            place = np.minimum(np.searchsorted(self._excluded_high, high), len(self._excluded_high) - 1)
            perhaps = np.flatnonzero(self._excluded_high[place] == high)
            listed[perhaps] = [uid in self._excluded for uid in uids.take(perhaps).to_pylist()]
        return listed
