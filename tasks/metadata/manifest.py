"""The metadata manifest: the receipt that says which pinned files lie in the metadata folder, and what they hold."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.contracts.errors import MetadataError
from tasks.io.files import write_json
from tasks.io.fingerprints import Verify
from tasks.metadata.slices import Slice, SliceFile
from tasks.metadata.verify import Column, fingerprints_in, refuse_strays, verify_file

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
    """The manifest in a few small values; ``path`` is where it lies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    slice: str
    files: int
    rows: int
    bytes: int
    metadata_sha256: str

    def in_words(self) -> str:
        """What lies there, in a line."""
        return f"{self.files} files of {self.slice}: {self.rows:,} rows, {self.bytes / 1e6:,.1f} MB"


class MetadataManifest(BaseModel):
    """Which slice the folder holds. ``metadata_sha256`` is over the pins: equal for equal metadata, anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    slice: str
    repo_id: str
    revision: str
    metadata_sha256: str
    total_rows: int
    files: tuple[ManifestFile, ...]

    def summary(self, path: Path) -> ManifestSummary:
        """The small values that a task returns of the manifest at ``path``."""
        return ManifestSummary(
            path=path,
            slice=self.slice,
            files=len(self.files),
            rows=self.total_rows,
            bytes=sum(file.bytes for file in self.files),
            metadata_sha256=self.metadata_sha256,
        )


def verify_metadata(folder: Path, slice_: Slice, verify: Verify = "changed") -> MetadataManifest:
    """Check every file of the slice in ``folder``; returns the manifest that describes them.

    Hashes are noted in the folder; ``full`` hashes again whatever is noted. Raises MetadataError
    with the problems of all files.
    """
    problems: list[str] = []
    files: list[ManifestFile] = []
    try:
        refuse_strays(folder, {pin.name for pin in slice_.files})
    except MetadataError as error:
        problems.append(str(error))
    for pin in slice_.files:
        try:
            files.append(_verified(folder, pin, verify))
        except MetadataError as error:
            problems.append(str(error))
    if problems:
        raise MetadataError("\n".join(problems))
    return _manifest(slice_, files)


def write_manifest(folder: Path, manifest: MetadataManifest) -> Path:
    """Write ``metadata-manifest.json``; one that already says the same is left alone."""
    path = folder / MANIFEST_NAME
    if read_manifest(folder) != manifest:
        write_json(path, manifest.model_dump(mode="json"))
    return path


def read_manifest(folder: Path) -> MetadataManifest | None:
    """The manifest in ``folder``; None if there is none, or none that can be understood."""
    try:
        return MetadataManifest.model_validate_json((folder / MANIFEST_NAME).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def _verified(folder: Path, pin: SliceFile, verify: Verify) -> ManifestFile:
    contents = verify_file(folder / pin.name, pin, fingerprints_in(folder, verify))
    return ManifestFile(**pin.model_dump(), columns=contents.columns)


def _manifest(slice_: Slice, files: list[ManifestFile]) -> MetadataManifest:
    return MetadataManifest(
        slice=slice_.name,
        repo_id=slice_.repo_id,
        revision=slice_.revision,
        metadata_sha256=slice_.metadata_sha256,
        total_rows=slice_.expected_attempts,
        files=tuple(files),
    )
