"""What the audit is asked and what it answers."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from tasks.io.fingerprints import Fingerprint
from tasks.io.receipts import Receipt, read_receipt
from tasks.io.shard_index import INDEX_VERSION, ShardIndexes

STAGE_VERSION = 1
NO_GATE = "no gate was given: shards that are missing altogether go unnoticed; name dataset_slice or gate"


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(_Value):
    """Something about a shard that should not be: its kind, the sample's key and the byte offset where known."""

    shard: str
    kind: str
    message: str
    key: str | None = None
    offset: int | None = None

    def __str__(self) -> str:
        key = f", key {self.key!r}" if self.key is not None else ""
        offset = f", byte {self.offset}" if self.offset is not None else ""
        return f"{self.shard}{key}{offset}: {self.message}"


class Stats(_Value):
    """What img2dataset counted for a shard. ``reasons``: its free texts (``success`` among them) and their counts."""

    count: int = 0
    successes: int = 0
    failed_to_download: int = 0
    failed_to_resize: int = 0
    reasons: dict[str, int] = {}


class ShardAudit(_Value):
    """One shard's audit: its stats (zeros where unreadable), its complete samples, its findings."""

    shard: str
    stats: Stats
    samples: int
    tar_bytes: int
    findings: tuple[Finding, ...]


class AuditJob(_Value):
    """Audit one shard. ``metadata_sha256`` names the metadata slice that it was downloaded from, if known."""

    shards_dir: Path
    audit_dir: Path
    shard: str
    metadata_sha256: str | None = None

    @property
    def name(self) -> str:
        """For the task run's name."""
        return self.shard

    @property
    def tar(self) -> Path:
        """The shard's tar."""
        return self.shards_dir / f"{self.shard}.tar"

    @property
    def stats_file(self) -> Path:
        """The stats that img2dataset writes when it has finished the shard."""
        return self.shards_dir / f"{self.shard}_stats.json"

    @property
    def receipt_path(self) -> Path:
        """Where the shard's receipt lies."""
        return self.audit_dir / f"{self.shard}.json"

    def indexes(self) -> ShardIndexes:
        """The indexes that the audit writes."""
        return ShardIndexes(self.audit_dir)

    def inputs(self) -> dict[str, Any]:
        """Fingerprints of what is audited; null where a file is missing. Raises OSError."""
        indexes = self.indexes()
        present: dict[str, Fingerprint | None] = {
            "tar": indexes.fingerprint(self.tar) if self.tar.is_file() else None,
            "stats": indexes.fingerprints.of(self.stats_file) if self.stats_file.is_file() else None,
        }
        return {name: value.model_dump() if value else None for name, value in present.items()}

    def receipt(self, audit: ShardAudit | None = None) -> Receipt:
        """The receipt of this audit; without ``audit`` what it must be about."""
        index = [] if audit is None else [p for p in (self.audit_dir / f"{self.shard}.index.parquet",) if p.exists()]
        return Receipt(
            stage="audit",
            stage_version=STAGE_VERSION,
            inputs={"shard": self.shard, "index_version": INDEX_VERSION, **self.inputs()},
            outputs=[self.indexes().fingerprints.of(path) for path in index],
            counts=audit.model_dump(mode="json") if audit else {},
        )

    def finished(self) -> ShardAudit | None:
        """The audit that a valid receipt tells of, or None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.audit_dir, self.indexes().fingerprints):
            return None
        return receipt.counts_as(ShardAudit)

    def cache_parts(self) -> dict[str, Any]:
        """What identifies the work, for the cache key."""
        return {"metadata": self.metadata_sha256, "work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"audit of {self.tar.name}"


class AuditTotals(_Value):
    """All shards together. Bytes are those of the tars; reasons are kinds, the receipts have the full texts."""

    shards: int
    attempts: int
    successes: int
    failed_to_download: int
    failed_to_resize: int
    samples: int
    tar_bytes: int
    failure_reasons: dict[str, int]
    findings: int
    gate_given: bool = True

    def in_words(self) -> str:
        """Return what was found, in a line."""
        found = f"{self.successes:,} of {self.attempts:,} URLs succeeded, {self.findings} findings"
        return f"{self.shards} shards, {found}{self.missing_gate()}"

    def missing_gate(self) -> str:
        """Return a half-sentence if the totals were held against nothing, else an empty string."""
        return "" if self.gate_given else f"; {NO_GATE}"
