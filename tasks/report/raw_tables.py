"""The downloader's own tables, one a shard, brought into the order of a catalogue: no tar is read for them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.report.catalogue import Catalogue

COLUMNS = {
    "uid": pa.string(),
    "url": pa.string(),
    "caption": pa.string(),
    "sha256": pa.string(),
    "exif": pa.string(),
    "width": pa.int32(),
    "height": pa.int32(),
    "faces": pa.int32(),
}
"""What a table can tell of a sample; ``sha256`` is that of the response, ``faces`` the number of boxes named."""


def raw_columns(catalogue: Catalogue, wanted: list[str]) -> pa.Table | None:
    """The ``wanted`` columns (of ``COLUMNS``), one row a sample of ``catalogue``; null where no table tells of it.

    None if not a single shard has a table: folders of tars alone are as good a source.
    """
    shard, keys = catalogue.table["shard"].to_numpy(), catalogue.table["key"].combine_chunks()
    schema = pa.schema([(name, COLUMNS[name]) for name in wanted])
    bounds = np.searchsorted(shard, np.arange(len(catalogue.tars) + 1))
    parts, known = [], False
    for number, tar in enumerate(catalogue.tars):
        mine = keys.slice(bounds[number], bounds[number + 1] - bounds[number])
        raw = _read(tar.with_suffix(".parquet"), schema)
        known = known or raw is not None
        parts.append(_nulls(schema, len(mine)) if raw is None else _in_order(raw, mine, schema))
    return pa.concat_tables(parts) if known else None


def _read(path: Path, schema: pa.Schema) -> pa.Table | None:
    try:
        there = set(pq.read_schema(path).names)
        names = ["face_bboxes" if name == "faces" else name for name in schema.names]
        return pq.read_table(path, columns=["key", *[n for n in names if n in there]], partitioning=None)
    except (OSError, pa.ArrowInvalid):
        return None


def _in_order(raw: pa.Table, keys: pa.Array, schema: pa.Schema) -> pa.Table:
    if "key" not in raw.column_names:
        return _nulls(schema, len(keys))
    rows = pc.index_in(keys, value_set=raw["key"].combine_chunks().cast(pa.string()))
    columns = [
        raw[name].cast(kind).take(rows) if name in raw.column_names else pa.nulls(len(keys), kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
        if name != "faces"
    ]
    if "faces" in schema.names:
        faces = pa.nulls(len(keys), pa.int32())
        if "face_bboxes" in raw.column_names:
            faces = pc.list_value_length(raw["face_bboxes"]).cast(pa.int32()).take(rows)
        columns.insert(schema.names.index("faces"), faces)
    return pa.table(columns, schema=schema)


def _nulls(schema: pa.Schema, length: int) -> pa.Table:
    return pa.table([pa.nulls(length, kind) for kind in schema.types], schema=schema)
