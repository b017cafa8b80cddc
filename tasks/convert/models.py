"""What the conversion is asked, what its steps answer, and where they keep it."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tasks.convert.completeness import read_successes
from tasks.io.fingerprints import Fingerprint, Fingerprints, Verify
from tasks.io.receipts import Receipt, read_receipt
from tasks.io.shard_index import ShardIndexes

CONTRACT_VERSION = 1
"""Raised only when the bytes of output tars would change."""

CONTRACT_VERSION_NOT_FINITE = 2
"""Of plans that emit a sample with a number in `source` that is not finite; all others keep CONTRACT_VERSION."""


SCAN_VERSION = 5
PLAN_VERSION = 1
WRITE_VERSION = 1

TARS_A_FILE = 100
"""Output tars whose samples are in one file: its footer names each of them, and a worker reads it for every tar."""

Split = Literal["train", "val"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PrepareFolder(_Value):
    """The ``.prepare`` folder of a dataset: everything about a conversion but its tars and manifest."""

    dataset_dir: Path

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.dataset_dir / ".prepare"

    @property
    def index(self) -> Path:
        """Indexes of raw tars that were never audited."""
        return self.path / "index"

    @property
    def scan(self) -> Path:
        """Scan tables and their receipts."""
        return self.path / "scan"

    @property
    def plan(self) -> Path:
        """The plan's head: identity, settings, counts, output tars."""
        return self.path / "plan.json"

    @property
    def plan_receipt(self) -> Path:
        """The plan's receipt."""
        return self.path / "plan-receipt.json"

    @property
    def samples(self) -> Path:
        """The plan's samples: files of TARS_A_FILE output tars each, in order, one row group a tar."""
        return self.path / "plan"

    def samples_of(self, row_group: int) -> tuple[Path, int]:
        """The file of one of the plan's row groups, and its number there."""
        number, row_group = divmod(row_group, TARS_A_FILE)
        return self.samples / f"samples-{number:06d}.parquet", row_group

    @property
    def rejects(self) -> Path:
        """One row for every sample that was read and not emitted."""
        return self.path / "rejects.parquet"

    @property
    def uids(self) -> Path:
        """The uids of a plan that is too large to search them in memory; there only while it is made."""
        return self.path / "uids"

    @property
    def write(self) -> Path:
        """Receipts of the output tars."""
        return self.path / "write"

    @property
    def staging(self) -> Path:
        """Tars that are being written."""
        return self.path / "staging"

    @property
    def results(self) -> Path:
        """Prefect's result storage."""
        return self.path / "results"

    def fingerprints(self) -> Fingerprints:
        """Hashes of the files of the dataset."""
        return Fingerprints(self.path / "fingerprints")


class ScanSummary(_Value):
    """A scanned shard. ``usable``: samples that nothing but an earlier copy, the exclusion list or the cut-off
    can keep out. ``trouble``: why the tar cannot be read to its end, and how many samples stand before that.
    ``gap``: why samples may be missing at the end of a tar that can be read."""

    shard: str
    samples: int
    usable: int
    trouble: str | None = None
    samples_before_trouble: int | None = None
    gap: str | None = None


class ScanJob(_Value):
    """Scan one raw tar of ``source_dir`` for the dataset in ``dataset_dir``.

    ``verify="full"``: hashes that the audit noted do not count.
    """

    source_dir: Path
    dataset_dir: Path
    audit_dir: Path | None
    shard: str
    verify: Verify = "changed"

    @property
    def name(self) -> str:
        """For the task run's name."""
        return self.shard

    @property
    def tar(self) -> Path:
        """The raw tar."""
        return self.source_dir / f"{self.shard}.tar"

    @property
    def stats_file(self) -> Path:
        """The stats that img2dataset leaves beside the raw tar."""
        return self.source_dir / f"{self.shard}_stats.json"

    @property
    def folder(self) -> PrepareFolder:
        """Where the conversion keeps its files."""
        return PrepareFolder(dataset_dir=self.dataset_dir)

    @property
    def table_path(self) -> Path:
        """The scan table."""
        return self.folder.scan / f"{self.shard}.parquet"

    @property
    def receipt_path(self) -> Path:
        """The scan's receipt."""
        return self.folder.scan / f"{self.shard}.json"

    def indexes(self) -> ShardIndexes:
        """The audit's indexes first, else the conversion's own."""
        return ShardIndexes(self.folder.index, shared=self.audit_dir, trust=self.verify == "changed")

    def receipt(self, summary: ScanSummary | None = None) -> Receipt:
        """The receipt of this scan; without ``summary`` what it must be about. Raises OSError."""
        return Receipt(
            stage="scan",
            stage_version=SCAN_VERSION,
            inputs={
                "tar": self.indexes().fingerprint(self.tar).model_dump(),
                "successes": read_successes(self.stats_file),
            },
            outputs=[self.folder.fingerprints().of(self.table_path)] if summary else [],
            counts=summary.model_dump(mode="json") if summary else {},
        )

    def finished(self) -> ScanSummary | None:
        """What a valid receipt tells of, or None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.outputs or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.folder.scan, self.folder.fingerprints()):
            return None
        return receipt.counts_as(ScanSummary)

    def cache_parts(self) -> dict[str, Any]:
        """What identifies the work, for the cache key."""
        return {"work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"scan of {self.tar.name}"


class PlannedTar(_Value):
    """An output tar of the plan. ``row_group``: where its samples stand, counted over all files of the plan."""

    filename: str
    split: Split
    samples: int
    row_group: int


class Counts(_Value):
    """The funnel: ``input_samples == train + val + skipped``; ``skip_reasons`` add up to ``skipped``."""

    input_samples: int
    train: int
    val: int
    skipped: int
    skip_reasons: dict[str, int]

    def in_words(self) -> str:
        """What became of the samples, in a line."""
        return f"{self.train:,} train, {self.val:,} val, {self.skipped:,} rejected"


class ShardCounts(_Value):
    """One opened raw tar's share: ``inputs == outputs + rejects``."""

    shard: str
    inputs: int
    outputs: int
    rejects: int


class Plan(_Value):
    """The plan's head. ``settings``: those that change tar bytes; ``identity``: SHA-256 of all it decides."""

    identity: str
    contract_version: int
    settings: dict[str, Any]
    opened: tuple[Fingerprint, ...]
    all_opened: bool
    """Whether every available raw tar was opened without reaching ``maximum_samples``."""
    shards: tuple[ShardCounts, ...]
    counts: Counts
    tars: tuple[PlannedTar, ...]
    oddities: dict[str, int] = {}
    """Emitted samples that are odd (see tasks/convert/oddities.py), by kind; no part of the identity."""
    accepted_gaps: dict[str, str] = {}
    """Opened raw tars that ``accept_cut_tars`` lets pass, and why they need it; no part of the identity."""


class WriteJob(_Value):
    """Write one output tar of the plan."""

    source_dir: Path
    dataset_dir: Path
    filename: str
    plan_identity: str

    @property
    def folder(self) -> PrepareFolder:
        """Where the conversion keeps its files."""
        return PrepareFolder(dataset_dir=self.dataset_dir)

    @property
    def path(self) -> Path:
        """The output tar."""
        return self.dataset_dir / self.filename

    @property
    def name(self) -> str:
        """The tar's name without its ending, as in train-000004: for the task run's name."""
        return self.filename.removesuffix(".tar").replace("-shard-", "-")

    @property
    def receipt_path(self) -> Path:
        """The receipt of the tar."""
        return self.folder.write / f"{self.filename}.json"

    def receipt(self, output: Fingerprint | None = None, samples: int = 0) -> Receipt:
        """The receipt of the tar; without ``output`` what it must be about."""
        return Receipt(
            stage="write",
            stage_version=WRITE_VERSION,
            inputs={"plan": self.plan_identity, "filename": self.filename},
            outputs=[output] if output else [],
            counts={"samples": samples} if output else {},
        )

    def finished(self) -> "WrittenTar | None":
        """The tar that a valid receipt tells of, or None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.outputs or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.dataset_dir, self.folder.fingerprints()):
            return None
        counts = receipt.counts_as(_WriteCounts)
        return WrittenTar(output=receipt.outputs[0], samples=counts.samples) if counts else None

    def cache_parts(self) -> dict[str, Any]:
        """What identifies the work, for the cache key."""
        return {"work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"writing of {self.filename}"


class _WriteCounts(_Value):
    samples: int


class WrittenTar(_Value):
    """A finished output tar."""

    output: Fingerprint
    samples: int
