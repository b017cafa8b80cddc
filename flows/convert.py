"""convert-dataset: raw shards to ChatML Energon tars, their manifest and their index."""

from pathlib import Path

from prefect import flow, get_run_logger
from pydantic import BaseModel, ConfigDict

from deployments.dask import task_runner
from tasks.contracts.cluster_profile import ClusterProfile, load_profile
from tasks.contracts.errors import GateError, PipelineError
from tasks.contracts.layout import GivenPath, absolute, default_audit_dir
from tasks.contracts.settings import CheckSettings, ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.models import Counts, Plan, PrepareFolder
from tasks.convert.plan_files import reject_kinds
from tasks.convert.task import scan_shards, search_copies, write_tars
from tasks.convert.uids import CopiesJob
from tasks.energon.index import IndexSummary
from tasks.energon.task import index_dataset_task
from tasks.io.fingerprints import Verify
from tasks.io.raw_tar import hidden_tars
from tasks.io.receipts import timed
from tasks.running.caching import stored_in
from tasks.running.fanout import JobRunner, run_jobs
from tasks.running.flow_lock import alone
from tasks.running.groups import look_up
from tasks.running.outcomes import ends_in_words, run_task
from tasks.running.progress import show_table


class ConvertResult(BaseModel):
    """A converted and indexed dataset. ``output_bytes``: size of all tars; ``oddities``: emitted samples, by kind."""

    model_config = ConfigDict(frozen=True)

    source_dir: Path
    dataset_dir: Path
    plan: str
    raw_shards_opened: int
    counts: Counts
    oddities: dict[str, int]
    tars: int
    output_bytes: int
    index: IndexSummary

    def in_words(self) -> str:
        """Summarize the dataset in one line."""
        return f"{self.raw_shards_opened} shards, {self.counts.in_words()}; {self.tars} tars"


@flow(name="convert-dataset", flow_run_name="convert {source_dir} to {output_dir}")
@ends_in_words
def convert_dataset(
    source_dir: GivenPath,
    output_dir: GivenPath,
    audit_dir: GivenPath | None = None,
    convert: ConvertSettings = ConvertSettings(),
    cluster: str = "local",
    verify: Verify = "changed",
) -> ConvertResult:
    """Scan the raw shards, plan the dataset, write its tars, and index them for Energon.

    Args:
        source_dir: Folder of the raw shards (*.tar); may be read-only, need not have been audited.
        output_dir: Folder of the dataset: new, or one that holds a conversion of the same plan, which goes on.
        audit_dir: Where the audit left its shard indexes; null: raw/audit if the shards lie in raw/shards.
        convert: Which samples to take, how to split them, and what the user turn says.
        cluster: Cluster profile: the name of a shipped one, or the path of a YAML file.
        verify: changed: trust noted hashes of unchanged files; full: hash everything again.
    """
    profile = load_profile(cluster)
    source_dir, output_dir = absolute(source_dir), absolute(output_dir)
    audit_dir = absolute(audit_dir) if audit_dir else default_audit_dir(source_dir)
    conversion = Conversion(source_dir, output_dir, audit_dir, convert, verify, profile.plan_in_memory)
    with alone(conversion.folder.path, "conversion", output_dir):
        return _convert(conversion, profile)


def _convert(conversion: Conversion, profile: ClusterProfile) -> ConvertResult:
    conversion.begin()
    _warn_of_hidden_tars(conversion.source_dir)
    plan = _scan_and_write(conversion, profile)
    manifest = conversion.finish(plan)
    if not plan.tars:
        raise GateError(
            f"{conversion.dataset_dir}: of {plan.counts.input_samples:,} samples none can be used "
            f"({plan.counts.skip_reasons}); {conversion.folder.rejects} tells of each. Look at the raw shards, and "
            "convert others into another folder"
        )
    if not manifest["accepted"]:
        raise GateError(
            f"{conversion.dataset_dir}: {plan.counts.train} train samples, fewer than minimum_train_samples "
            f"({conversion.settings.minimum_train_samples}); the tars are kept, nothing was indexed. Lower "
            "minimum_train_samples and run again, or convert more raw shards into another folder"
        )
    index = run_task(index_dataset_task, conversion.dataset_dir, CheckSettings())
    return ConvertResult(
        source_dir=conversion.source_dir,
        dataset_dir=conversion.dataset_dir,
        plan=plan.identity,
        raw_shards_opened=len(plan.opened),
        counts=plan.counts,
        oddities=plan.oddities,
        tars=len(plan.tars),
        output_bytes=sum(shard["size_bytes"] for shard in manifest["output_shards"]),
        index=index,
    )


def _scan_and_write(conversion: Conversion, profile: ClusterProfile) -> Plan:
    with task_runner(profile, conversion.folder.path) as runner:
        with timed(conversion.folder.path, "scan"):
            _scan(conversion, profile, runner)
        with timed(conversion.folder.path, "plan"):
            plan = conversion.plan(lambda jobs: _search_copies(jobs, profile, runner))
        _say(plan)
        _show(plan, conversion.folder)
        with timed(conversion.folder.path, "write"):
            failed = _write(conversion, plan, profile, runner)
    if failed:
        raise PipelineError("; ".join(failed))
    return plan


def _warn_of_hidden_tars(source_dir: Path) -> None:
    if hidden := hidden_tars(source_dir):
        get_run_logger().warning("ignored, since their names start with a dot: %s", ", ".join(hidden[:10]))


def _scan(conversion: Conversion, profile: ClusterProfile, runner: JobRunner) -> None:
    left = conversion.look_up_scans(profile.task_runs)
    task = stored_in(scan_shards, conversion.folder.results)
    # Scan only a few shards ahead: with maximum_samples, scans beyond the cut-off are wasted.
    scans = run_jobs(
        runner, task, conversion.scan_jobs(), profile, stage="scan", unit="raw shards", total=left, ahead=2
    )
    for scanned in scans:
        conversion.scan_ended(scanned.job, scanned.error)


def _search_copies(jobs: list[CopiesJob], profile: ClusterProfile, runner: JobRunner) -> None:
    for outcome in run_jobs(runner, search_copies, jobs, profile, stage="copies", unit="parts", total=len(jobs)):
        if outcome.error is not None:
            raise PipelineError(f"{outcome.job} failed: {outcome.error}; run again")


def _write(conversion: Conversion, plan: Plan, profile: ClusterProfile, runner: JobRunner) -> list[str]:
    """Write the missing tars; return a description of each failure."""
    looked_up = look_up(conversion.write_jobs(plan), profile.task_runs)
    left = [job for job, written in looked_up if written is None]
    task = stored_in(write_tars, conversion.folder.results)
    outcomes = run_jobs(runner, task, left, profile, stage="write", unit="output tars", total=len(left))
    return [f"{outcome.job} failed: {outcome.error}" for outcome in outcomes if outcome.error is not None]


def _say(plan: Plan) -> None:
    counts = plan.counts
    get_run_logger().info(
        "plan %s: %d raw shards opened, %d samples read, %d train, %d val, %d skipped %s; %d tars",
        plan.identity[:12],
        len(plan.opened),
        counts.input_samples,
        counts.train,
        counts.val,
        counts.skipped,
        counts.skip_reasons,
        len(plan.tars),
    )
    for gap in plan.accepted_gaps.values():
        get_run_logger().warning("accepted although samples may be missing: %s", gap)
    if any(plan.oddities.values()):
        get_run_logger().warning("odd samples that stay in the dataset: %s", plan.oddities)


def _show(plan: Plan, folder: PrepareFolder) -> None:
    counts = plan.counts
    of_all = f"{counts.skipped:,} of {counts.input_samples:,} samples were rejected"
    show_table("reject-reasons", reject_kinds(folder), of_all)
    tars = [{"tar": tar.filename, "split": tar.split, "samples": tar.samples} for tar in plan.tars]
    show_table("output-tars", tars, f"{counts.train:,} train and {counts.val:,} val samples in {len(tars):,} tars")


if __name__ == "__main__":
    from cli.program import run_program

    run_program(convert_dataset)
