"""The columns of a metadata file that we use: their allowed Arrow types, and the plain types they are cast to."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.io.files import atomic_file

TEXT_COLUMNS = ("uid", "url", "text")
BOXES_COLUMN = "face_bboxes"
USED_COLUMNS = (*TEXT_COLUMNS, BOXES_COLUMN)
BATCH_ROWS = 100_000


def plain_type(name: str, given: pa.DataType) -> pa.DataType | None:
    """Return the type that column ``name`` is cast to without loss, or None if it cannot be used."""
    return _plain_text(given) if name in TEXT_COLUMNS else _plain_list(given, depth=2)


def read_plain(file: pq.ParquetFile, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield batches of the used columns of an open file, cast to their plain types. Raises pa.ArrowException."""
    for batch in file.iter_batches(rows, columns=list(USED_COLUMNS)):
        columns = [_cast(name, batch.column(name)) for name in USED_COLUMNS]
        yield pa.RecordBatch.from_arrays(columns, names=list(USED_COLUMNS))


def plain_metadata(folder: Path, names: Iterable[str], copies: Path) -> Path:
    """Return a folder with these files in types that every Arrow version reads: ``folder``, or new ``copies``.

    The official downloader's Arrow does not support string views, and img2dataset cannot split dictionaries.
    """
    paths = [folder / name for name in sorted(names)]
    if all(_is_plain(pq.read_schema(path)) for path in paths):
        return folder
    shutil.rmtree(copies, ignore_errors=True)
    copies.mkdir(parents=True)
    for path in paths:
        _write_copy(path, copies / path.name)
    return copies


def _write_copy(path: Path, copy: Path) -> None:
    with pq.ParquetFile(path) as file, atomic_file(copy) as target:
        plain = [pa.field(name, plain_type(name, file.schema_arrow.field(name).type)) for name in USED_COLUMNS]
        with pq.ParquetWriter(target, pa.schema(plain)) as writer:
            for batch in read_plain(file):
                writer.write_batch(batch)


def _is_plain(schema: pa.Schema) -> bool:
    return all(plain_type(name, schema.field(name).type) == schema.field(name).type for name in USED_COLUMNS)


def _cast(name: str, column: pa.Array) -> pa.Array:
    plain = plain_type(name, column.type)
    return column if plain is None or plain == column.type else column.cast(plain)


def _plain_text(given: pa.DataType) -> pa.DataType | None:
    if pa.types.is_dictionary(given):
        return _plain_text(given.value_type)
    if pa.types.is_string_view(given):
        return pa.large_string()
    return given if pa.types.is_string(given) or pa.types.is_large_string(given) else None


def _plain_list(given: pa.DataType, depth: int) -> pa.DataType | None:
    if depth == 0:
        return given if pa.types.is_float32(given) or pa.types.is_float64(given) else None
    usable = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(check(given) for check in usable):
        return None
    inner = _plain_list(given.value_type, depth - 1)
    if inner is None or (inner == given.value_type and not pa.types.is_fixed_size_list(given)):
        return inner and given
    return pa.large_list(inner) if pa.types.is_large_list(given) else pa.list_(inner)
