"""All samples of a dataset, or of a folder of raw shards, in one table: what happened to each and where its bytes are.

The table is built from the plan, the scan tables and the shard indexes. For a dataset no tar is opened.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.contracts.errors import DatasetError
from tasks.report.places import Places, read_json

MEMBERS = ("jpg", "json", "txt")
RANGES = [f"{name}_{part}" for name in MEMBERS for part in ("offset", "size")]
_SCANNED = ["key", "uid", "caption_characters", "width", "height", *RANGES]
_SPLITS = ["", "train", "val"]
_PARALLEL_FILES = 8
"""A shared file system is slow for each single file, but serves several files in parallel."""

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Catalogue:
    """A table with one row per sample, in the order in which samples are read.

    Columns: ``shard`` (index into ``tars``), ``key``, ``uid``, ``split`` (empty: not emitted), ``reason`` and ``cause``
    (empty: emitted), ``caption_characters``, ``width``, ``height`` (pixels), and offset and size in bytes of each
    member in its raw tar (null if the member is missing).
    """

    tars: tuple[Path, ...]
    table: pa.Table
    planned: bool
    """Whether the samples belong to a prepared dataset; raw shards alone have neither splits nor reject reasons."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def emitted(self) -> Array:
        """Rows of the samples that are in the dataset."""
        return rows_where(pc.not_equal(self.table["split"], ""))

    @property
    def rejected(self) -> Array:
        """Rows of the samples that were read but rejected."""
        return rows_where(pc.not_equal(self.table["reason"], ""))


def rows_where(mask: pa.ChunkedArray) -> Array:
    """Return the indexes of the rows for which ``mask`` is true."""
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy()).astype(np.int64)


def read_catalogue(places: Places) -> Catalogue:
    """Read the catalogue of a prepared dataset. Raises DatasetError if its tables are missing or inconsistent."""
    plan = read_json(places.plan)
    try:
        opened = [tar["name"] for tar in plan["opened"]]
        samples, tars = plan["counts"]["input_samples"], plan["tars"]
        scanned = _read_scan_tables(places, opened).slice(0, samples)
        split = _join_splits(places, opened, tars, scanned)
        reasons = pq.read_table(places.rejects, columns=["reason", "cause"], partitioning=None)
    except (KeyError, TypeError, OSError, pa.ArrowInvalid) as error:
        raise DatasetError(
            f"{places.prepare}: the conversion's tables cannot be read ({error}); convert the shards again"
        ) from None
    rejected = np.flatnonzero(split == 0)
    if len(rejected) != reasons.num_rows:
        raise DatasetError(
            f"{places.rejects} lists {reasons.num_rows} rejects, but the plan rejects {len(rejected)} samples; "
            "convert the shards again"
        )
    table = scanned.append_column("split", pa.array(_SPLITS).take(pa.array(split)))
    for name in ("reason", "cause"):
        table = table.append_column(name, _scatter(reasons[name], rejected, len(split)))
    return Catalogue(tuple(places.shards_dir / name for name in opened), table, planned=True)


def _read_scan_tables(places: Places, opened: list[str]) -> pa.Table:
    with ThreadPoolExecutor(_PARALLEL_FILES) as threads:
        tables = list(threads.map(_read_scan, [places.scan(name) for name in opened], range(len(opened))))
    return pa.concat_tables(tables).combine_chunks()


def _read_scan(path: Path, number: int) -> pa.Table:
    # ParquetFile reads a small file in half the time: read_table inspects the path first.
    with pq.ParquetFile(path) as file:
        table = file.read(columns=_SCANNED, use_threads=False)
    table = table.set_column(0, "key", as_text(table["key"]))
    return table.add_column(0, "shard", pa.array(np.full(table.num_rows, number, dtype=np.int32)))


def as_text(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return member keys as text; bytes that are not valid UTF-8 become backslash escapes."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.chunked_array([[key.decode("utf-8", "backslashreplace") for key in keys.to_pylist()]], pa.string())


def _join_splits(places: Places, opened: list[str], tars: list[dict[str, str]], scanned: pa.Table) -> Array:
    """Return each row's index into ``_SPLITS``; the plan is joined on raw tar and offset of the picture."""
    files = sorted(places.planned.glob("*.parquet"))
    planned = pq.read_table(files, columns=["raw_tar", "jpg_offset"], partitioning=None)
    shard = pc.index_in(planned["raw_tar"], value_set=pa.array(opened))
    of_tar = np.repeat(
        [_SPLITS.index(tar["split"]) for tar in tars] or [0], [int(tar["samples"]) for tar in tars] or [0]
    ).astype(np.int64)
    planned_positions = _positions(shard, planned["jpg_offset"])
    positions = _positions(scanned["shard"], scanned["jpg_offset"])
    order = np.argsort(planned_positions, kind="stable")  # fast: two sorted runs, one per split
    found = np.searchsorted(planned_positions[order], positions)
    inside = np.minimum(found, max(len(order) - 1, 0))
    hit = np.zeros(len(positions), dtype=bool)
    if len(order):
        hit = (found < len(order)) & (planned_positions[order][inside] == positions)
    split = np.zeros(len(positions), dtype=np.int64)
    split[hit] = of_tar[order[inside[hit]]]
    return split


def _positions(shard: pa.ChunkedArray, offset: pa.ChunkedArray) -> Array:
    """Combine tar index and offset into one number; -1 where a sample has no picture."""
    offsets = pc.fill_null(offset, -1).to_numpy().astype(np.int64)
    return np.where(offsets < 0, -1, (shard.to_numpy().astype(np.int64) << 44) + offsets)


def _scatter(values: pa.ChunkedArray, rows: Array, length: int) -> pa.Array:
    """Return an array with ``values`` at ``rows`` and the empty string elsewhere."""
    at = np.full(length, -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    taken = values.combine_chunks().take(pa.array(at, mask=at < 0))
    return pc.fill_null(taken, "")
