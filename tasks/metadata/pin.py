"""Make a slice: pin files of a hub repository by commit, size, SHA-256 and rows."""

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import ValidationError

from tasks.contracts.errors import MetadataError, SettingsError, TransientError
from tasks.io.files import write_bytes
from tasks.io.fingerprints import Fingerprints
from tasks.metadata.fetch import download_patiently, publish
from tasks.metadata.hub import FileInfo, Source, fetch_file_info
from tasks.metadata.slices import Slice, SliceFile, describe_errors
from tasks.metadata.verify import bullet_list, schema_problems


def check_request(name: str, repo_id: str, files: list[str]) -> None:
    """Check that a slice file can be made of these names, before the hub is asked. Raises SettingsError."""
    if not files:
        raise SettingsError("files: name at least one Parquet file of the repository")
    pins = [{"name": file, "rows": 1, "bytes": 1, "sha256": "0" * 64} for file in files]
    try:
        Slice.model_validate({"name": name, "repo_id": repo_id, "revision": "0" * 40, "files": pins})
    except ValidationError as error:
        raise SettingsError(f"this cannot become a slice: {describe_errors(error)}") from None


def resolve_commit(source: Source, name: str) -> str:
    """Return the commit that ``source.revision`` (a branch, tag or commit) names now. Raises MetadataError."""
    return fetch_file_info(source, name).commit


def pin_file(folder: Path, source: Source, name: str) -> SliceFile:
    """Fetch a file into ``folder`` unless it is there, and return its pin.

    The file is compared with the hub's headers. Raises MetadataError; TransientError where a retry may help.
    """
    info = fetch_file_info(source, name)
    path = folder / name
    if path.exists():
        return _make_pin(path, name, info)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".fetch-{name}-", dir=folder) as temporary:
        arrived = download_patiently(source, name, Path(temporary))
        pin = _make_pin(arrived, name, info)
        publish(arrived, path, pin)
    return pin


def write_slice(path: Path, name: str, source: Source, pins: list[SliceFile]) -> Slice:
    """Write the slice file. Raises SettingsError if the file exists with other content."""
    slice_ = Slice(name=name, repo_id=source.repo_id, revision=source.revision, files=tuple(pins))
    fields = slice_.model_dump(mode="json", include={"name", "repo_id", "revision", "files"})
    text = yaml.safe_dump(fields, sort_keys=False).encode()
    if path.exists() and path.read_bytes() != text:
        raise SettingsError(f"slice_file: {path} is there and says something else; choose another name")
    write_bytes(path, text)
    return slice_


def _make_pin(path: Path, name: str, info: FileInfo) -> SliceFile:
    found = Fingerprints(path.parent / ".fingerprints").of(path)
    if found.size != info.bytes or (info.sha256 and found.sha256 != info.sha256):
        raise TransientError(
            f"{path} is not what the hub announces: {found.size} bytes with SHA-256 {found.sha256}, announced were "
            f"{info.bytes} bytes with SHA-256 {info.sha256 or 'unknown'}; if it was there before, move it elsewhere"
        )
    try:
        with pq.ParquetFile(path) as file:
            rows, problems = file.metadata.num_rows, schema_problems(file.schema_arrow)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MetadataError(f"{name} cannot be read as Parquet: {error}") from None
    if problems:
        raise MetadataError(bullet_list(f"{name} is no metadata that can be downloaded from:", problems))
    return SliceFile(name=name, rows=rows, bytes=found.size, sha256=found.sha256)
