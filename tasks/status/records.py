"""The parts of receipts and manifests that status rests on; a file that is not one counts as not there."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

Type = TypeVar("Type")


class _Part(BaseModel):
    """A part of a record; what status does not need is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _PinnedFile(_Part):
    name: str
    bytes: int
    rows: int


class MetadataManifest(_Part):
    """The pinned files of the slice."""

    files: tuple[_PinnedFile, ...]


class _Sharding(_Part):
    number_sample_per_shard: int
    oom_shard_count: int


class _Rows(_Part):
    rows: dict[str, int]


class DownloadIdentity(_Part):
    """Which download lies in the root."""

    settings: _Sharding
    inputs: _Rows

    def shards(self) -> list[str]:
        """The expected shards' names: each metadata file is cut into pieces, which are numbered through."""
        size, digits = self.settings.number_sample_per_shard, self.settings.oom_shard_count
        pieces = sum(-(-rows // size) for rows in self.inputs.rows.values())
        return [f"{number:0{digits}d}" for number in range(pieces)]


class Totals(_Part):
    """The audit's sum."""

    attempts: int
    successes: int


class Finding(_Part):
    """What an audit found."""

    shard: str
    message: str
    key: str | None = None

    def __str__(self) -> str:
        key = f", key {self.key!r}" if self.key is not None else ""
        return f"{self.shard}{key}: {self.message}"


class _Found(_Part):
    findings: tuple[Finding, ...]


class AuditReceipt(_Part):
    """The receipt of one shard's audit."""

    counts: _Found


class _Named(_Part):
    name: str
    size: int


class _Tar(_Part):
    filename: str


class _Counts(_Part):
    train: int
    val: int
    skipped: int


class PlanHead(_Part):
    """The plan: raw tars that it opens, output tars, counts."""

    identity: str
    opened: tuple[_Named, ...]
    counts: _Counts
    tars: tuple[_Tar, ...]


class OutputShard(_Part):
    """An output tar of the manifest."""

    filename: str
    split: str
    size_bytes: int
    sha256: str


class Manifest(_Part):
    """The dataset's manifest."""

    plan: str
    accepted: bool
    minimum_train_samples: int
    counts: _Counts
    output_shards: tuple[OutputShard, ...]


class _Indexed(_Part):
    output_shards: tuple[OutputShard, ...]


class IndexReceipt(_Part):
    """The receipt of Energon's index."""

    inputs: _Indexed
    outputs: tuple[_Named, ...]


class _Loaded(_Part):
    shards: dict[str, str]


class LoadReceipt(_Part):
    """The receipt of one split's pass through the loader: SHA-256 by tar."""

    inputs: _Loaded


def read(path: Path, kind: type[Type]) -> Type | None:
    """The record in a file; None if there is none, or none that can be understood: a rerun makes it again."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
