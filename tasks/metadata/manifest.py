"""The metadata manifest: the receipt of the pinned files in the metadata folder, with their rows and columns."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.contracts.errors import MetadataError
from tasks.io.files import write_json
from tasks.io.fingerprints import Verify
from tasks.metadata.slices import Slice, SliceFile
from tasks.metadata.verify import Column, check_no_unpinned_files, fingerprints_in, verify_file

MANIFEST_NAME = "metadata-manifest.json"


class ManifestFile(BaseModel):
    """A verified file: its pin, and its columns with their Arrow types."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    bytes: int
    sha256: str
    rows: int
    columns: tuple[Column, ...]


class ManifestSummary(BaseModel):
    """Key figures of the manifest at ``path``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    slice: str
    files: int
    rows: int
    bytes: int
    metadata_sha256: str

    def in_words(self) -> str:
        """Return the summary in a line."""
        return f"{self.files} files of {self.slice}: {self.rows:,} rows, {self.bytes / 1e6:,.1f} MB"


class MetadataManifest(BaseModel):
    """The slice in a metadata folder. ``metadata_sha256`` covers the pins, so equal metadata has an equal value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    slice: str
    repo_id: str
    revision: str
    metadata_sha256: str
    total_rows: int
    files: tuple[ManifestFile, ...]

    def summary(self, path: Path) -> ManifestSummary:
        """Return the key figures of this manifest, which is at ``path``."""
        return ManifestSummary(
            path=path,
            slice=self.slice,
            files=len(self.files),
            rows=self.total_rows,
            bytes=sum(file.bytes for file in self.files),
            metadata_sha256=self.metadata_sha256,
        )


def verify_metadata(folder: Path, slice_: Slice, verify: Verify = "changed") -> MetadataManifest:
    """Check every file of the slice in ``folder`` and return their manifest.

    Hashes are recorded in the folder; ``full`` ignores the recorded ones. Raises MetadataError with the problems of
    all files.
    """
    problems: list[str] = []
    files: list[ManifestFile] = []
    try:
        check_no_unpinned_files(folder, {pin.name for pin in slice_.files})
    except MetadataError as error:
        problems.append(str(error))
    for pin in slice_.files:
        try:
            files.append(_verify_pin(folder, pin, verify))
        except MetadataError as error:
            problems.append(str(error))
    if problems:
        raise MetadataError("\n".join(problems))
    return _build_manifest(slice_, files)


def write_manifest(folder: Path, manifest: MetadataManifest) -> Path:
    """Write ``metadata-manifest.json`` unless it already holds the same manifest; return its path."""
    path = folder / MANIFEST_NAME
    if read_manifest(folder) != manifest:
        write_json(path, manifest.model_dump(mode="json"))
    return path


def read_manifest(folder: Path) -> MetadataManifest | None:
    """Read the manifest in ``folder``; return None if it is missing or invalid."""
    try:
        return MetadataManifest.model_validate_json((folder / MANIFEST_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def _verify_pin(folder: Path, pin: SliceFile, verify: Verify) -> ManifestFile:
    contents = verify_file(folder / pin.name, pin, fingerprints_in(folder, verify))
    return ManifestFile(**pin.model_dump(), columns=contents.columns)


def _build_manifest(slice_: Slice, files: list[ManifestFile]) -> MetadataManifest:
    return MetadataManifest(
        slice=slice_.name,
        repo_id=slice_.repo_id,
        revision=slice_.revision,
        metadata_sha256=slice_.metadata_sha256,
        total_rows=slice_.expected_attempts,
        files=tuple(files),
    )
