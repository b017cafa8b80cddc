"""The parts of receipts and manifests that status reads; an invalid file counts as missing."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

RecordT = TypeVar("RecordT")


class _Part(BaseModel):
    """A part of a record; fields that status does not need are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _PinnedFile(_Part):
    name: str
    bytes: int
    rows: int


class MetadataManifest(_Part):
    """The pinned files of the slice."""

    files: tuple[_PinnedFile, ...]


class _ShardingSettings(_Part):
    number_sample_per_shard: int
    oom_shard_count: int


class _DownloadInputs(_Part):
    rows: dict[str, int]


class DownloadIdentity(_Part):
    """Settings and inputs of the download in this data root."""

    settings: _ShardingSettings
    inputs: _DownloadInputs

    def shards(self) -> list[str]:
        """Return the expected shard names: each metadata file is cut into shards, which are numbered consecutively."""
        size, digits = self.settings.number_sample_per_shard, self.settings.oom_shard_count
        pieces = sum(-(-rows // size) for rows in self.inputs.rows.values())
        return [f"{number:0{digits}d}" for number in range(pieces)]


class Totals(_Part):
    """The audit's totals."""

    attempts: int
    successes: int


class RecordedFinding(_Part):
    """A finding as the audit recorded it."""

    shard: str
    message: str
    key: str | None = None

    def __str__(self) -> str:
        key = f", key {self.key!r}" if self.key is not None else ""
        return f"{self.shard}{key}: {self.message}"


class _AuditCounts(_Part):
    findings: tuple[RecordedFinding, ...]


class AuditReceipt(_Part):
    """The receipt of one shard's audit."""

    counts: _AuditCounts


class _NamedFile(_Part):
    name: str
    size: int


class _PlannedShard(_Part):
    filename: str


class _Counts(_Part):
    train: int
    val: int
    skipped: int


class PlanHead(_Part):
    """The head of the plan: raw tars that it opens, output shards, counts."""

    identity: str
    opened: tuple[_NamedFile, ...]
    counts: _Counts
    tars: tuple[_PlannedShard, ...]


class OutputShard(_Part):
    """The manifest's entry of an output shard."""

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


class _IndexInputs(_Part):
    output_shards: tuple[OutputShard, ...]


class IndexReceipt(_Part):
    """The receipt of Energon's index."""

    inputs: _IndexInputs
    outputs: tuple[_NamedFile, ...]


class _LoadInputs(_Part):
    shards: dict[str, str]


class LoadReceipt(_Part):
    """The load receipt of one split: SHA-256 by output shard."""

    inputs: _LoadInputs


def read_record(path: Path, kind: type[RecordT]) -> RecordT | None:
    """Read the record in a file; return None if it is missing or invalid, because a rerun would make it again."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None
