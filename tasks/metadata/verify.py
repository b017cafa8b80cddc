"""Checks of a metadata file against its pin: size, SHA-256, rows, and Arrow types of the used columns."""

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict

from tasks.contracts.errors import MetadataError
from tasks.io.fingerprints import Fingerprints, Verify
from tasks.io.metadata_columns import BOXES_COLUMN, USED_COLUMNS, plain_type
from tasks.metadata.slices import SliceFile


class Column(BaseModel):
    """A column: its name, and its type in Arrow's notation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str


class Contents(BaseModel):
    """Rows and columns from the footer of a Parquet file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    columns: tuple[Column, ...]


def fingerprints_in(folder: Path, verify: Verify = "changed") -> Fingerprints:
    """Return the recorded hashes of the files in a metadata folder."""
    return Fingerprints(folder / ".fingerprints", verify)


def verify_file(path: Path, pin: SliceFile, fingerprints: Fingerprints) -> Contents:
    """Check ``path`` against its pin and return its contents.

    Raises MetadataError with one sentence per mismatch.
    """
    if not path.is_file():
        raise MetadataError(f"{path} is missing or not a file; fetch the metadata, or put the pinned file there")
    contents, problems = compare(path, pin, fingerprints)
    if contents is None or problems:
        raise MetadataError(bullet_list(f"{path} is not the pinned file:", problems))
    return contents


def compare(path: Path, pin: SliceFile, fingerprints: Fingerprints) -> tuple[Contents | None, list[str]]:
    """Return the contents of ``path`` (None if not Parquet) and its differences from the pin. Raises OSError."""
    problems = byte_problems(path, pin, fingerprints)
    footer = _read_footer(path)
    if footer is None:
        with path.open("rb") as file:
            return None, [describe_bytes(file.read(200)), *problems]
    contents, schema = footer
    if contents.rows != pin.rows:
        problems.append(f"it has {contents.rows} rows, {pin.rows} are pinned")
    return contents, problems + schema_problems(schema)


def byte_problems(path: Path, pin: SliceFile, fingerprints: Fingerprints) -> list[str]:
    """Return differences in size and SHA-256 between ``path`` and its pin as sentences. Raises OSError."""
    found = fingerprints.of(path)
    problems = []
    if found.size != pin.bytes:
        problems.append(f"its size is {found.size} bytes, {pin.bytes} are pinned")
    if found.sha256 != pin.sha256:
        problems.append(f"its SHA-256 is {found.sha256}, {pin.sha256} is pinned")
    return problems


def schema_problems(schema: pa.Schema) -> list[str]:
    """Return the problems of the columns that the downloader uses, as sentences; ignore all other columns.

    ``schema`` is the logical (Arrow) schema: the physical one names ``face_bboxes`` after its leaf.
    """
    problems = []
    for name in USED_COLUMNS:
        indices = schema.get_all_field_indices(name)
        if len(indices) != 1:
            problems.append(f"it has {len(indices)} columns named {name}, one is needed (columns: {schema.names})")
        elif plain_type(name, schema.field(indices[0]).type) is None:
            wanted = "list of list of float or double" if name == BOXES_COLUMN else "string or large_string"
            problems.append(f"its column {name} is {schema.field(indices[0]).type}, {wanted} is needed")
    return problems


def check_no_unpinned_files(folder: Path, pinned: Collection[str]) -> None:
    """Raise MetadataError if ``folder`` holds Parquet files that are not pinned: the downloader would read them."""
    unpinned = sorted(path.name for path in folder.glob("*.parquet") if path.name not in pinned)
    if unpinned:
        raise MetadataError(
            f"{folder} holds Parquet files that the slice does not pin: {', '.join(unpinned)}; "
            "the downloader would take them as input: move them to another folder"
        )


def describe_bytes(head: bytes) -> str:
    """Describe what a file or response is instead of Parquet, judged by its first bytes."""
    text = head.lstrip().lower()
    if not head:
        return "it is empty"
    if text.startswith(b"version https://git-lfs"):
        kind = "it is a Git-LFS pointer, not the file that it stands for"
    elif text.startswith((b"<!doctype html", b"<html")):
        kind = "it is an HTML page, not Parquet"
    elif head.startswith(b"PAR1"):
        kind = "it begins like Parquet, but it is cut or damaged"
    else:
        kind = "it is not Parquet"
    return f"{kind} (first bytes: {head[:40]!r})"


def bullet_list(heading: str, problems: list[str]) -> str:
    """Return the heading and the problems, one per line."""
    return "\n  - ".join([heading, *problems])


def _read_footer(path: Path) -> tuple[Contents, pa.Schema] | None:
    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            columns = tuple(Column(name=field.name, type=str(field.type)) for field in schema)
            return Contents(rows=file.metadata.num_rows, columns=columns), schema
    # ValueError: a damaged footer may hold names that are not UTF-8.
    except (pa.ArrowException, OSError, ValueError):
        return None
