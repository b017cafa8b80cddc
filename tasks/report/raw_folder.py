"""Catalogue of a folder of raw shards: read from the audit's indexes, or from the tar headers if there are none."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.io.fingerprints import Fingerprints
from tasks.io.raw_tar import Group, list_raw_tars, read_tar
from tasks.io.shard_index import index_path, read_index_table
from tasks.report.catalogue import MEMBERS, RANGES, Catalogue, as_text
from tasks.report.raw_tables import read_raw_columns

_SCHEMA = pa.schema([("key", pa.string()), *[(name, pa.int64()) for name in RANGES]])


def read_raw_folder(shards_dir: Path, audit_dir: Path | None) -> Catalogue:
    """Build the catalogue of the raw shards in ``shards_dir`` without writing. Raises ShardError if there are none."""
    tars = list_raw_tars(shards_dir)
    parts = []
    for number, tar in enumerate(tars):
        table = _read_index(tar, audit_dir)
        table = table if table is not None else _tabulate_groups(read_tar(tar).groups)
        parts.append(table.add_column(0, "shard", pa.array(np.full(table.num_rows, number, dtype=np.int32))))
    catalogue = Catalogue(tuple(tars), pa.concat_tables(parts).combine_chunks(), planned=False)
    return Catalogue(catalogue.tars, _add_sample_columns(catalogue), planned=False)


def _read_index(tar: Path, audit_dir: Path | None) -> pa.Table | None:
    """Read the samples of ``tar`` from the audit's index; return None if the tar is not indexed or changed since."""
    if audit_dir is None:
        return None
    noted = Fingerprints(audit_dir / "fingerprints").noted(tar)
    index = read_index_table(index_path(audit_dir, tar), noted) if noted else None
    if index is None:
        return None
    members = index["members"].combine_chunks()
    row, flat = pc.list_parent_indices(members).to_numpy(), members.flatten()
    columns = {"key": as_text(index["key"])}
    for name in MEMBERS:
        matching = np.flatnonzero(pc.equal(flat.field("extension"), name.encode()).to_numpy(zero_copy_only=False))
        for part in ("offset", "size"):
            columns[f"{name}_{part}"] = _scatter(flat.field(part).take(pa.array(matching)), row[matching], len(index))
    return pa.table(columns, schema=_SCHEMA)


def _scatter(values: pa.Array, rows: np.ndarray, length: int) -> pa.Array:
    """Return an array with ``values`` at ``rows`` and null elsewhere."""
    at = np.full(length, -1, dtype=np.int64)
    at[rows] = np.arange(len(rows))
    return values.take(pa.array(at, mask=at < 0))


def _tabulate_groups(groups: Iterable[Group]) -> pa.Table:
    rows = []
    for group in groups:
        row: dict[str, str | int] = {"key": group.key.encode("utf-8", "backslashreplace").decode()}
        for member in group.members:
            if member.extension in MEMBERS:
                row |= {f"{member.extension}_offset": member.offset, f"{member.extension}_size": member.size}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _add_sample_columns(catalogue: Catalogue) -> pa.Table:
    """Add the columns that a conversion would add; the known values come from the downloader's tables."""
    length = len(catalogue)
    facts = read_raw_columns(catalogue, ["uid", "width", "height"])
    table = catalogue.table
    for name, kind in (("uid", pa.string()), ("width", pa.int32()), ("height", pa.int32())):
        table = table.append_column(name, facts[name] if facts is not None else pa.nulls(length, kind))
    table = table.append_column("caption_characters", pa.nulls(length, pa.int64()))
    for name in ("split", "reason", "cause"):
        table = table.append_column(name, pa.repeat("", length))
    return table
