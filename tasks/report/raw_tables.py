"""The downloader's tables, one per shard, reordered to match a catalogue; no tar is read."""

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
"""Columns of the downloader's tables: ``sha256`` is that of the response, ``faces`` the number of face boxes."""


def read_raw_columns(catalogue: Catalogue, wanted: list[str]) -> pa.Table | None:
    """Read the ``wanted`` columns (of ``COLUMNS``), one row per sample of ``catalogue``; unknown values are null.

    Returns None if no shard has a table: a folder of tars alone is a valid source too.
    """
    shard, keys = catalogue.table["shard"].to_numpy(), catalogue.table["key"].combine_chunks()
    schema = pa.schema([(name, COLUMNS[name]) for name in wanted])
    bounds = np.searchsorted(shard, np.arange(len(catalogue.tars) + 1))
    parts, known = [], False
    for number, tar in enumerate(catalogue.tars):
        shard_keys = keys.slice(bounds[number], bounds[number + 1] - bounds[number])
        raw = _read_table(tar.with_suffix(".parquet"), schema)
        known = known or raw is not None
        parts.append(_null_table(schema, len(shard_keys)) if raw is None else _reorder(raw, shard_keys, schema))
    return pa.concat_tables(parts) if known else None


def _read_table(path: Path, schema: pa.Schema) -> pa.Table | None:
    try:
        present = set(pq.read_schema(path).names)
        names = ["face_bboxes" if name == "faces" else name for name in schema.names]
        return pq.read_table(path, columns=["key", *[n for n in names if n in present]], partitioning=None)
    except (OSError, pa.ArrowInvalid):
        return None


def _reorder(raw: pa.Table, keys: pa.Array, schema: pa.Schema) -> pa.Table:
    if "key" not in raw.column_names:
        return _null_table(schema, len(keys))
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


def _null_table(schema: pa.Schema, length: int) -> pa.Table:
    return pa.table([pa.nulls(length, kind) for kind in schema.types], schema=schema)
