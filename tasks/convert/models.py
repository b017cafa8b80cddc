"""Data models of the conversion: jobs, results, the plan, and the paths of their files."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tasks.convert.completeness import read_successes
from tasks.io.fingerprints import Fingerprint, Fingerprints, Verify
from tasks.io.receipts import Receipt, read_receipt
from tasks.io.shard_index import ShardIndexes

CONTRACT_VERSION = 1
"""Version of the output tars; it is increased only when their bytes change."""

CONTRACT_VERSION_NOT_FINITE = 2
"""Version of plans that emit a sample with NaN or Infinity in `source`; other plans keep CONTRACT_VERSION."""


SCAN_VERSION = 5
PLAN_VERSION = 1
WRITE_VERSION = 1

TARS_A_FILE = 100
"""Output tars per file of samples: the file's footer lists all of them, and a worker reads it for every tar."""

Split = Literal["train", "val"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PrepareFolder(_Value):
    """The ``.prepare`` folder of a dataset: all files of a conversion except its tars and manifest."""

    dataset_dir: Path

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return self.dataset_dir / ".prepare"

    @property
    def index(self) -> Path:
        """Folder of the indexes of raw tars that were not audited."""
        return self.path / "index"

    @property
    def scan(self) -> Path:
        """Folder of the scan tables and their receipts."""
        return self.path / "scan"

    @property
    def plan(self) -> Path:
        """Path of the plan's head: identity, settings, counts, output tars."""
        return self.path / "plan.json"

    @property
    def plan_receipt(self) -> Path:
        """Path of the plan's receipt."""
        return self.path / "plan-receipt.json"

    @property
    def samples(self) -> Path:
        """Folder of the plan's samples: files of TARS_A_FILE output tars each, in order, one row group per tar."""
        return self.path / "plan"

    def samples_of(self, row_group: int) -> tuple[Path, int]:
        """Return the file that holds one of the plan's row groups, and the row group's number in that file."""
        number, row_group = divmod(row_group, TARS_A_FILE)
        return self.samples / f"samples-{number:06d}.parquet", row_group

    @property
    def rejects(self) -> Path:
        """Path of the rejects: one row for every sample that was read but not emitted."""
        return self.path / "rejects.parquet"

    @property
    def uids(self) -> Path:
        """Folder of the uids of a plan too large to search in memory; it exists only while the plan is made."""
        return self.path / "uids"

    @property
    def write(self) -> Path:
        """Folder of the output tars' receipts."""
        return self.path / "write"

    @property
    def staging(self) -> Path:
        """Folder of the tars that are being written."""
        return self.path / "staging"

    @property
    def results(self) -> Path:
        """Folder of Prefect's result storage."""
        return self.path / "results"

    def fingerprints(self) -> Fingerprints:
        """Return the recorded fingerprints of the dataset's files."""
        return Fingerprints(self.path / "fingerprints")


class ScanSummary(_Value):
    """Result of a scan.

    ``usable``: samples that only an earlier copy, the exclusion list or the cut-off can reject. ``trouble``: why the
    tar cannot be read to its end; ``samples_before_trouble``: how many samples precede that place. ``gap``: why
    samples may be missing at the end of a readable tar.
    """

    shard: str
    samples: int
    usable: int
    trouble: str | None = None
    samples_before_trouble: int | None = None
    gap: str | None = None


class ScanJob(_Value):
    """The scan of one raw tar of ``source_dir`` for the dataset in ``dataset_dir``.

    ``verify="full"``: hash the files again and ignore the fingerprints that the audit recorded.
    """

    source_dir: Path
    dataset_dir: Path
    audit_dir: Path | None
    shard: str
    verify: Verify = "changed"

    @property
    def name(self) -> str:
        """Name for the task run."""
        return self.shard

    @property
    def tar(self) -> Path:
        """Path of the raw tar."""
        return self.source_dir / f"{self.shard}.tar"

    @property
    def stats_file(self) -> Path:
        """Path of the stats that img2dataset writes beside the raw tar."""
        return self.source_dir / f"{self.shard}_stats.json"

    @property
    def folder(self) -> PrepareFolder:
        """Folder of the conversion's files."""
        return PrepareFolder(dataset_dir=self.dataset_dir)

    @property
    def table_path(self) -> Path:
        """Path of the scan table."""
        return self.folder.scan / f"{self.shard}.parquet"

    @property
    def receipt_path(self) -> Path:
        """Path of the scan's receipt."""
        return self.folder.scan / f"{self.shard}.json"

    def indexes(self) -> ShardIndexes:
        """Return the indexes: the audit's where they exist, else the conversion's own."""
        return ShardIndexes(self.folder.index, shared=self.audit_dir, trust=self.verify == "changed")

    def receipt(self, summary: ScanSummary | None = None) -> Receipt:
        """Return the scan's receipt; without ``summary``, the receipt to compare an existing one with.

        Raises OSError.
        """
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
        """Return the recorded summary if the receipt is valid, else None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.outputs or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.folder.scan, self.folder.fingerprints()):
            return None
        return receipt.counts_as(ScanSummary)

    def cache_parts(self) -> dict[str, Any]:
        """Return the values that identify the work, for the cache key."""
        return {"work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"scan of {self.tar.name}"


class PlannedTar(_Value):
    """An output tar of the plan. ``row_group``: the row group of its samples, counted over all files of the plan."""

    filename: str
    split: Split
    samples: int
    row_group: int


class Counts(_Value):
    """Sample counts: ``input_samples == train + val + skipped``; ``skip_reasons`` add up to ``skipped``."""

    input_samples: int
    train: int
    val: int
    skipped: int
    skip_reasons: dict[str, int]

    def in_words(self) -> str:
        """Return a one-line summary."""
        return f"{self.train:,} train, {self.val:,} val, {self.skipped:,} rejected"


class ShardCounts(_Value):
    """Sample counts of one opened raw tar: ``inputs == outputs + rejects``."""

    shard: str
    inputs: int
    outputs: int
    rejects: int


class Plan(_Value):
    """The plan's head. ``settings``: those that change tar bytes; ``identity``: SHA-256 of all decisions."""

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
    """Number of odd emitted samples by kind (see tasks/convert/oddities.py); not part of the identity."""
    accepted_gaps: dict[str, str] = {}
    """Opened raw tars that only ``accept_cut_tars`` accepts, with the reason; not part of the identity."""


class WriteJob(_Value):
    """The writing of one output tar of the plan."""

    source_dir: Path
    dataset_dir: Path
    filename: str
    plan_identity: str

    @property
    def folder(self) -> PrepareFolder:
        """Folder of the conversion's files."""
        return PrepareFolder(dataset_dir=self.dataset_dir)

    @property
    def path(self) -> Path:
        """Path of the output tar."""
        return self.dataset_dir / self.filename

    @property
    def name(self) -> str:
        """Name for the task run: the tar's name without extension, for example train-000004."""
        return self.filename.removesuffix(".tar").replace("-shard-", "-")

    @property
    def receipt_path(self) -> Path:
        """Path of the tar's receipt."""
        return self.folder.write / f"{self.filename}.json"

    def receipt(self, output: Fingerprint | None = None, samples: int = 0) -> Receipt:
        """Return the tar's receipt; without ``output``, the receipt to compare an existing one with."""
        return Receipt(
            stage="write",
            stage_version=WRITE_VERSION,
            inputs={"plan": self.plan_identity, "filename": self.filename},
            outputs=[output] if output else [],
            counts={"samples": samples} if output else {},
        )

    def finished(self) -> "WrittenTar | None":
        """Return the recorded tar if the receipt is valid, else None."""
        receipt = read_receipt(self.receipt_path)
        if receipt is None or not receipt.outputs or not receipt.is_for(self.receipt()):
            return None
        if not receipt.outputs_intact(self.dataset_dir, self.folder.fingerprints()):
            return None
        counts = receipt.counts_as(_WriteCounts)
        return WrittenTar(output=receipt.outputs[0], samples=counts.samples) if counts else None

    def cache_parts(self) -> dict[str, Any]:
        """Return the values that identify the work, for the cache key."""
        return {"work": self.receipt().model_dump(mode="json")}

    def __str__(self) -> str:
        return f"writing of {self.filename}"


class _WriteCounts(_Value):
    samples: int


class WrittenTar(_Value):
    """A finished output tar."""

    output: Fingerprint
    samples: int
