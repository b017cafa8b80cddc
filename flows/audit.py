"""audit-download: check every raw shard against its stats, and the totals against the gate."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger

from deployments.dask import task_runner
from tasks.audit.gate import Tally, check_gate, shard_names
from tasks.audit.models import NO_GATE, AuditJob, AuditTotals, ShardAudit
from tasks.audit.task import audit_shards
from tasks.contracts.cluster_profile import ClusterProfile, load_profile
from tasks.contracts.errors import PipelineError, SettingsError
from tasks.contracts.layout import GivenPath, absolute, default_audit_dir
from tasks.contracts.settings import DownloadSettings, GateSettings
from tasks.io.failure_note import failure_noted
from tasks.io.files import remove_leftovers, write_json
from tasks.io.fingerprints import Verify
from tasks.io.receipts import timed
from tasks.io.shard_index import ShardIndexes
from tasks.metadata.slices import load_slice
from tasks.running.caching import stored_in
from tasks.running.fanout import run_jobs
from tasks.running.flow_lock import alone
from tasks.running.groups import finished_by_notes, look_up
from tasks.running.outcomes import ends_in_words
from tasks.running.progress import show_table


@flow(name="audit-download", flow_run_name="audit {shards_dir}")
@ends_in_words
def audit_download(
    shards_dir: GivenPath,
    audit_dir: GivenPath | None = None,
    gate: GateSettings = GateSettings(),
    cluster: str = "local",
    verify: Verify = "changed",
    metadata_sha256: str | None = None,
    dataset_slice: str | None = None,
) -> AuditTotals:
    """Audit every raw shard, index it, and hold the totals to the gate.

    Args:
        shards_dir: Folder of the raw shards; may be read-only.
        audit_dir: Folder for indexes and receipts; null: raw/audit of the data root that the shards lie in.
        gate: What the shards must add up to.
        cluster: Cluster profile: the name of a shipped one, or the path of a YAML file.
        verify: changed: trust noted hashes of unchanged files; full: hash everything again.
        metadata_sha256: Identity of the metadata slice that the shards were downloaded from, part of the cache key.
        dataset_slice: Slice that gives what gate leaves out: name of a shipped one, or path of a YAML file.
    """
    shards_dir = absolute(shards_dir)
    audit_dir = absolute(audit_dir) if audit_dir else default_audit_dir(shards_dir)
    if audit_dir is None:
        raise SettingsError(
            f"audit_dir: the shards lie in {shards_dir}, not in a data root's raw/shards; name a folder"
        )
    gate = _gate_of(gate, dataset_slice)
    profile = load_profile(cluster)
    shards, unexpected = shard_names(shards_dir)
    jobs = [
        AuditJob(shards_dir=shards_dir, audit_dir=audit_dir, shard=shard, metadata_sha256=metadata_sha256)
        for shard in shards
    ]
    tally, rows = Tally(unexpected), []

    def totals_now() -> AuditTotals:
        return tally.totals().model_copy(update={"gate_given": gate != GateSettings()})

    def save() -> None:
        write_json(audit_dir / "totals.json", totals_now().model_dump(mode="json"))
        write_json(audit_dir / "findings.json", [finding.model_dump(mode="json") for finding in tally.findings()])

    with timed(audit_dir, "audit"):
        for audit in _run(jobs, profile, audit_dir, verify, save):
            tally.add(audit)
            rows.append(_row(audit))
    totals, findings = totals_now(), tally.findings()
    _say(totals)
    _show(rows, totals)
    with failure_noted(audit_dir, "audit"):
        check_gate(totals, gate, findings)
    return totals


def _gate_of(gate: GateSettings, dataset_slice: str | None) -> GateSettings:
    """Return the gate; if a slice is named, it provides the missing values."""
    if dataset_slice is None:
        return gate
    slice_ = load_slice(dataset_slice)
    return slice_.gate_settings(gate, slice_.download_settings(DownloadSettings()).number_sample_per_shard)


def _run(
    jobs: list[AuditJob], profile: ClusterProfile, audit_dir: Path, verify: Verify, save: Callable[[], None]
) -> Iterator[ShardAudit]:
    """Yield the audit of every shard, in any order, then ``save`` the totals; hold the lock while anything changes."""
    left = []
    for job, audit in () if verify == "full" else look_up(jobs, profile.task_runs):
        if audit is None:
            left.append(job)
        else:
            yield audit
    left = jobs if verify == "full" else left
    finished = verify == "changed" and _all_done(left) and (audit_dir / "totals.json").exists()
    # Runs for two datasets of one root do not lock each other out when nothing is left to do.
    with nullcontext() if finished else alone(audit_dir, "audit", jobs[0].shards_dir):
        if verify == "full":
            ShardIndexes(audit_dir).fingerprints.forget()
        if not finished:
            remove_leftovers(audit_dir)
        yield from _audit(left, profile, audit_dir)
        if not finished:
            save()


def _all_done(jobs: list[AuditJob]) -> bool:
    try:
        return all(finished_by_notes(job) for job in jobs)
    except OSError:  # the audit of that shard reports the error
        return False


def _audit(left: list[AuditJob], profile: ClusterProfile, audit_dir: Path) -> Iterator[ShardAudit]:
    unfinished = []
    with task_runner(profile, audit_dir) as runner:
        task = stored_in(audit_shards, audit_dir / "results")
        for outcome in run_jobs(runner, task, left, profile, stage="audit", unit="shards", total=len(left)):
            audit = finished_by_notes(outcome.job) or outcome.job.finished()
            if audit is None:
                unfinished.append(f"{outcome.job} did not finish: {outcome.error or 'no valid receipt'}; run again")
            else:
                yield audit
    if unfinished:
        raise PipelineError(min(unfinished))


def _row(audit: ShardAudit) -> dict[str, Any]:
    return {
        "shard": audit.shard,
        "attempts": audit.stats.count,
        "successes": audit.stats.successes,
        "samples": audit.samples,
        "bytes": audit.tar_bytes,
        "findings": len(audit.findings),
    }


def _show(rows: list[dict[str, Any]], totals: AuditTotals) -> None:
    reasons = [{"reason": reason, "URLs": count} for reason, count in totals.failure_reasons.items()]
    show_table("failure-reasons", reasons, f"{totals.attempts - totals.successes:,} of {totals.attempts:,} URLs failed")
    rows = sorted(rows, key=lambda row: str(row["shard"]))
    show_table("raw-shards", rows, f"{totals.shards:,} complete raw shards{totals.missing_gate()}")


def _say(totals: AuditTotals) -> None:
    get_run_logger().info(
        "%d shards: %d attempts, %d successes, %d findings; failures: %s",
        totals.shards,
        totals.attempts,
        totals.successes,
        totals.findings,
        totals.failure_reasons,
    )
    if not totals.gate_given:
        get_run_logger().warning(NO_GATE)


if __name__ == "__main__":
    from cli.program import run_program

    run_program(audit_download)
