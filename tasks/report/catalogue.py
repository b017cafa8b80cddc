"""Every sample of a dataset or of a folder of raw shards as one table: what became of it, and where its bytes lie.

Built from the plan, the scan tables and the shard indexes; no tar is opened for a dataset.
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
_FILES_AT_A_TIME = 8
"""A shared file system takes its time for each file, not for many at a time."""

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Catalogue:
    """One row a sample, in order of reading.

    Columns: ``shard`` (number in ``tars``), ``key``, ``uid``, ``split`` (empty: not emitted), ``reason`` and ``cause``
    (empty: emitted), ``caption_characters``, ``width``, ``height`` (pixels), and offset and size in bytes of each
    member in its raw tar (null where a member is missing).
    """

    tars: tuple[Path, ...]
    table: pa.Table
    planned: bool
    """Whether it tells of a dataset; raw shards alone have no splits and no reasons."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def emitted(self) -> Array:
        """Rows of the samples that are in the dataset."""
        return rows_where(pc.not_equal(self.table["split"], ""))

    @property
    def rejected(self) -> Array:
        """Rows of the samples that were read and are not in the dataset."""
        return rows_where(pc.not_equal(self.table["reason"], ""))


def rows_where(mask: pa.ChunkedArray) -> Array:
    """The numbers of the rows for which ``mask`` is true."""
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy()).astype(np.int64)


def read_catalogue(places: Places) -> Catalogue:
    """The catalogue of a prepared dataset. Raises DatasetError if its tables are missing or disagree."""
    plan = read_json(places.plan)
    try:
        opened = [tar["name"] for tar in plan["opened"]]
        samples, tars = plan["counts"]["input_samples"], plan["tars"]
        scanned = _scanned(places, opened).slice(0, samples)
        split = _splits(places, opened, tars, scanned)
        reasons = pq.read_table(places.rejects, columns=["reason", "cause"], partitioning=None)
    except (KeyError, TypeError, OSError, pa.ArrowInvalid) as error:
        raise DatasetError(
            f"{places.prepare}: the conversion's tables cannot be read ({error}); convert the shards again"
        ) from None
    rejected = np.flatnonzero(split == 0)
    if len(rejected) != reasons.num_rows:
        raise DatasetError(
            f"{places.rejects} tells of {reasons.num_rows} rejects, the plan leaves out {len(rejected)} samples; "
            "convert the shards again"
        )
    table = scanned.append_column("split", pa.array(_SPLITS).take(pa.array(split)))
    for name in ("reason", "cause"):
        table = table.append_column(name, _spread(reasons[name], rejected, len(split)))
    return Catalogue(tuple(places.shards_dir / name for name in opened), table, planned=True)


def _scanned(places: Places, opened: list[str]) -> pa.Table:
    with ThreadPoolExecutor(_FILES_AT_A_TIME) as threads:
        tables = list(threads.map(_read_scan, [places.scan(name) for name in opened], range(len(opened))))
    return pa.concat_tables(tables).combine_chunks()


def _read_scan(path: Path, number: int) -> pa.Table:
    # ParquetFile reads a small file in half of the time that read_table needs to find out what it is.
    with pq.ParquetFile(path) as file:
        table = file.read(columns=_SCANNED, use_threads=False)
    table = table.set_column(0, "key", as_text(table["key"]))
    return table.add_column(0, "shard", pa.array(np.full(table.num_rows, number, dtype=np.int32)))


def as_text(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys of members as text; bytes that are no UTF-8 are written as escapes."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.chunked_array([[key.decode("utf-8", "backslashreplace") for key in keys.to_pylist()]], pa.string())


def _splits(places: Places, opened: list[str], tars: list[dict[str, str]], scanned: pa.Table) -> Array:
    """For each row the number of its split in ``_SPLITS``, joined on raw tar and offset of the picture."""
    files = sorted(places.planned.glob("*.parquet"))
    planned = pq.read_table(files, columns=["raw_tar", "jpg_offset"], partitioning=None)
    shard = pc.index_in(planned["raw_tar"], value_set=pa.array(opened))
    of_tar = np.repeat(
        [_SPLITS.index(tar["split"]) for tar in tars] or [0], [int(tar["samples"]) for tar in tars] or [0]
    ).astype(np.int64)
    places_, mine = _places(shard, planned["jpg_offset"]), _places(scanned["shard"], scanned["jpg_offset"])
    order = np.argsort(places_, kind="stable")  # two sorted runs, one a split: next to no work
    found = np.searchsorted(places_[order], mine)
    inside = np.minimum(found, max(len(order) - 1, 0))
    hit = (found < len(order)) & (places_[order][inside] == mine) if len(order) else np.zeros(len(mine), dtype=bool)
    split = np.zeros(len(mine), dtype=np.int64)
    split[hit] = of_tar[order[inside[hit]]]
    return split


def _places(shard: pa.ChunkedArray, offset: pa.ChunkedArray) -> Array:
    """One number for tar and offset; -1 where a sample has no picture."""
    offsets = pc.fill_null(offset, -1).to_numpy().astype(np.int64)
    return np.where(offsets < 0, -1, (shard.to_numpy().astype(np.int64) << 44) + offsets)


def _spread(values: pa.ChunkedArray, rows: Array, length: int) -> pa.Array:
    """``values`` at ``rows``, the empty text elsewhere."""
    at = np.full(length, -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    taken = values.combine_chunks().take(pa.array(at, mask=at < 0))
    return pc.fill_null(taken, "")
