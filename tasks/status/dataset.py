"""Status of the stages of a dataset: scan, plan, write, index, check and report."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.io.failure_note import read_failure
from tasks.status.folders import File, list_files
from tasks.status.models import Stage, count_stage
from tasks.status.records import IndexReceipt, LoadReceipt, Manifest, OutputShard, PlanHead, read_record

_SPLITS = ("train", "val")
_UNKNOWN_FILES = "{} holds files that are not of a conversion by this tool; use another dataset_name"


@dataclass(frozen=True)
class DatasetFiles:
    """A snapshot of a dataset's folder. ``raw``: the files in the folder of raw shards."""

    data: DataRoot
    name: str
    raw: dict[str, File]

    @property
    def folder(self) -> Path:
        """The dataset's folder."""
        return self.data.dataset(self.name)

    @property
    def prepare(self) -> Path:
        """The conversion's folder for its receipts and tables."""
        return self.folder / ".prepare"

    @cached_property
    def files(self) -> dict[str, File]:
        """Output shards, their Energon indexes and the manifest."""
        return list_files(self.folder)

    @cached_property
    def plan(self) -> PlanHead | None:
        """The plan's head."""
        return read_record(self.prepare / "plan.json", PlanHead)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest, or None if it belongs to another plan."""
        manifest = read_record(self.folder / "manifest.json", Manifest)
        return manifest if manifest and self.plan and manifest.plan == self.plan.identity else None

    @cached_property
    def output_shards(self) -> dict[str, OutputShard]:
        """The manifest's entries of the output shards, by file name."""
        return {shard.filename: shard for shard in self.manifest.output_shards} if self.manifest else {}


def stages(dataset: DatasetFiles) -> Iterator[Stage]:
    """Yield the stages in order; the failure of a conversion is attached to its first unfinished stage."""
    converting = [scan(dataset), plan(dataset), write(dataset), index(dataset)]
    failure = read_failure(dataset.prepare, "conversion")
    known = (dataset.prepare / "plan.json").exists() or "manifest.json" in dataset.files
    if any(dataset.files) and not known:
        failure = _UNKNOWN_FILES.format(dataset.folder)
    stopped = next((stage for stage in converting if stage.state != "done"), converting[-1])
    yield from (stage.with_failure(failure) if stage is stopped else stage for stage in converting)
    yield check(dataset).with_failure(read_failure(dataset.prepare, "check"))
    yield report(dataset).with_failure(read_failure(dataset.data.report(dataset.name).parent, "report"))


def scan(dataset: DatasetFiles) -> Stage:
    """Return the scan stage, from the scan receipts of the raw tars that the plan opens; without a plan, of all."""
    tars = [name for name in dataset.raw if name.endswith(".tar")]
    opened = [tar.name for tar in dataset.plan.opened] if dataset.plan else sorted(tars)
    receipts = list_files(dataset.prepare / "scan", ".json")
    missing = [tar for tar in opened if not _has_scan_receipt(tar, dataset.raw, receipts)]
    limit = "" if dataset.plan else " at most (maximum_samples may need fewer)"
    return count_stage("scan", opened, missing, f"scan {len(missing):,} raw shards{limit}")


def plan(dataset: DatasetFiles) -> Stage:
    """Return the plan stage; it failed if raw shards changed after the plan opened them."""
    if not dataset.plan:
        return Stage(stage="plan", state="not begun", rerun="plan all samples once all shards are scanned")
    counts = dataset.plan.counts
    summary = f"{counts.train:,} train, {counts.val:,} val, {counts.skipped:,} skipped"
    opened = dataset.plan.opened
    changed = [tar.name for tar in opened if dataset.raw.get(tar.name, tar).size != tar.size]
    if changed:
        why = f"{', '.join(changed[:5])} changed since the plan was made: the dataset belongs to the earlier shards"
        rerun = "fail again: restore the shards, or use another dataset_name"
        return Stage(stage="plan", state="failed", why=(why,), summary=summary, rerun=rerun)
    return Stage(stage="plan", state="done", done=1, of=1, summary=summary, rerun="nothing to do")


def write(dataset: DatasetFiles) -> Stage:
    """Return the write stage: output shards with a receipt and the manifest's size, and the manifest itself."""
    if not dataset.plan:
        return Stage(stage="write", state="not begun", rerun="write all tars of the plan")
    planned = [tar.filename for tar in dataset.plan.tars]
    receipts = list_files(dataset.prepare / "write", ".json")
    missing = [tar for tar in planned if f"{tar}.json" not in receipts or not _is_whole(tar, dataset)]
    stage = count_stage("write", planned, missing, f"write {len(missing):,} tars")
    if stage.state == "done" and not dataset.manifest:
        return stage.model_copy(update={"state": "unfinished", "rerun": "write the manifest"})
    return stage


def index(dataset: DatasetFiles) -> Stage:
    """Return the index stage: files of the index receipt, which must list the manifest's output shards."""
    manifest = dataset.manifest
    if manifest and not manifest.accepted:
        few = f"{manifest.counts.train:,} train samples, fewer than minimum_train_samples"
        why = f"{few} ({manifest.minimum_train_samples:,})"
        lower = "fail again unless minimum_train_samples is lowered; more shards need another dataset_name"
        return Stage(stage="index", state="failed", why=(why,), rerun=lower)
    receipt = read_record(dataset.prepare / "index-receipt.json", IndexReceipt)
    if receipt is None or not manifest:
        return Stage(stage="index", state="not begun", rerun="index all tars")
    outputs = [output.name for output in receipt.outputs]
    if {shard.filename: shard for shard in receipt.inputs.output_shards} != dataset.output_shards:
        return count_stage("index", outputs, outputs, "index all tars again")
    missing = [output.name for output in receipt.outputs if _size(dataset.folder / output.name) != output.size]
    return count_stage("index", outputs, missing, "index all tars again")


def check(dataset: DatasetFiles) -> Stage:
    """Return the check stage: load receipts of the splits, which must list the manifest's output shards."""
    splits = [split for split in _SPLITS if any(shard.split == split for shard in dataset.output_shards.values())]
    missing = [split for split in splits if not _has_load_receipt(dataset, split)]
    return count_stage("check", splits, missing, f"read {' and '.join(missing or _SPLITS)} back through Energon")


def report(dataset: DatasetFiles) -> Stage:
    """Return the report stage; a report older than the manifest is unfinished."""
    page = dataset.data.report(dataset.name)
    manifest = dataset.files.get("manifest.json")
    written = page.stat().st_mtime_ns if page.is_file() else None
    if written is None or manifest is None or written < manifest.changed:
        return Stage(stage="report", state="not begun" if written is None else "unfinished", rerun="write the report")
    return Stage(stage="report", state="done", done=1, of=1, summary=str(page), rerun="write the report again")


def _has_scan_receipt(tar: str, raw: dict[str, File], receipts: dict[str, File]) -> bool:
    receipt = receipts.get(f"{tar.removesuffix('.tar')}.json")
    return receipt is not None and (tar not in raw or raw[tar].changed <= receipt.changed)


def _is_whole(tar: str, dataset: DatasetFiles) -> bool:
    file, shard = dataset.files.get(tar), dataset.output_shards.get(tar)
    return file is not None and (shard is None or shard.size_bytes == file.size)


def _has_load_receipt(dataset: DatasetFiles, split: str) -> bool:
    receipt = read_record(dataset.prepare / f"load-{split}-receipt.json", LoadReceipt)
    shards = {name: shard.sha256 for name, shard in dataset.output_shards.items() if shard.split == split}
    return receipt is not None and receipt.inputs.shards == shards


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
