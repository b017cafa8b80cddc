"""Data models of the audit: jobs, findings, results and totals."""

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
    """A problem with a shard: its kind, and the sample's key and byte offset if known."""

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
    """img2dataset's counts for a shard. ``reasons``: counts by its free-text reasons, including ``success``."""

    count: int = 0
    successes: int = 0
    failed_to_download: int = 0
    failed_to_resize: int = 0
    reasons: dict[str, int] = {}


class ShardAudit(_Value):
    """The audit of one shard: stats (zeros if invalid), number of complete samples, findings."""

    shard: str
    stats: Stats
    samples: int
    tar_bytes: int
    findings: tuple[Finding, ...]


class AuditJob(_Value):
    """The audit job of one shard. ``metadata_sha256`` identifies the slice that it was downloaded from, if known."""

    shards_dir: Path
    audit_dir: Path
    shard: str
    metadata_sha256: str | None = None

    @property
    def name(self) -> str:
        """Name for the task run."""
        return self.shard

    @property
    def tar(self) -> Path:
        """Path of the shard's tar."""
        return self.shards_dir / f"{self.shard}.tar"

    @property
    def stats_file(self) -> Path:
        """Path of the stats file that img2dataset writes when the shard is complete."""
        return self.shards_dir / f"{self.shard}_stats.json"

    @property
    def receipt_path(self) -> Path:
        """Path of the shard's receipt."""
        return self.audit_dir / f"{self.shard}.json"

    def indexes(self) -> ShardIndexes:
        """Return the indexes that the audit writes."""
        return ShardIndexes(self.audit_dir)

    def inputs(self) -> dict[str, Any]:
        """Return the fingerprints of the audited files, null for a missing file. Raises OSError."""
        indexes = self.indexes()
        present: dict[str, Fingerprint | None] = {
            "tar": indexes.fingerprint(self.tar) if self.tar.is_file() else None,
            "stats": indexes.fingerprints.of(self.stats_file) if self.stats_file.is_file() else None,
        }
        return {name: value.model_dump() if value else None for name, value in present.items()}

    def receipt(self, audit: ShardAudit | None = None) -> Receipt:
        """Return the receipt of this audit; without ``audit``, the receipt to compare an existing one with."""
        index = [] if audit is None else [p for p in (self.audit_dir / f"{self.shard}.index.parquet",) if p.exists()]
        return Receipt(
            stage="audit",
            stage_version=STAGE_VERSION,
            inputs={"shard": self.shard, "index_version": INDEX_VERSION, **self.inputs()},
            outputs=[self.indexes().fingerprints.of(path) for path in index],
            counts=audit.model_dump(mode="json") if audit else {},
        )

    def finished(self) -> ShardAudit | None:
        """Return the recorded audit if the receipt is valid, else None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.audit_dir, self.indexes().fingerprints):
            return None
        return receipt.counts_as(ShardAudit)

    def cache_parts(self) -> dict[str, Any]:
        """Return the values that identify the work, for the cache key."""
        return {"metadata": self.metadata_sha256, "work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"audit of {self.tar.name}"


class AuditTotals(_Value):
    """Totals over all shards.

    ``tar_bytes``: size of the tars. ``failure_reasons``: counts by kind; the receipts contain the texts.
    """

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
        """Return a one-line summary."""
        found = f"{self.successes:,} of {self.attempts:,} URLs succeeded, {self.findings} findings"
        return f"{self.shards} shards, {found}{self.missing_gate()}"

    def missing_gate(self) -> str:
        """Return a clause for the summary if no gate was given, else an empty string."""
        return "" if self.gate_given else f"; {NO_GATE}"
