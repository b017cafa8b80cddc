"""audit-download: hold every raw shard against its stats, and the totals against the gate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger

from deployments.dask import task_runner, worker_count
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
from tasks.running.fanout import jobs_in_flight, run_in_groups
from tasks.running.flow_lock import alone
from tasks.running.groups import finished_by_notes, group_size, look_up
from tasks.running.outcomes import ends_in_words
from tasks.running.progress import show_table, with_progress


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
    shards, foreign = shard_names(shards_dir)
    if verify == "full":
        ShardIndexes(audit_dir).fingerprints.forget()
    jobs = [
        AuditJob(shards_dir=shards_dir, audit_dir=audit_dir, shard=shard, metadata_sha256=metadata_sha256)
        for shard in shards
    ]
    tally, rows = Tally(foreign), []
    with timed(audit_dir, "audit"):
        for audit in _run(jobs, profile, audit_dir):
            tally.add(audit)
            rows.append(_row(audit))
    totals = tally.totals().model_copy(update={"gate_given": gate != GateSettings()})
    findings = tally.findings()
    write_json(audit_dir / "totals.json", totals.model_dump(mode="json"))
    write_json(audit_dir / "findings.json", [finding.model_dump(mode="json") for finding in findings])
    _say(totals)
    _show(rows, totals)
    with failure_noted(audit_dir, "audit"):
        check_gate(totals, gate, findings)
    return totals


def _gate_of(gate: GateSettings, dataset_slice: str | None) -> GateSettings:
    """Return the gate, with what it leaves out taken from the slice, if one is named."""
    if dataset_slice is None:
        return gate
    slice_ = load_slice(dataset_slice)
    return slice_.gate_settings(gate, slice_.download_settings(DownloadSettings()).number_sample_per_shard)


def _run(jobs: list[AuditJob], profile: ClusterProfile, audit_dir: Path) -> Iterator[ShardAudit]:
    """The audit of every shard, in any order; receipts are what counts."""
    left = []
    for job, audit in look_up(jobs, profile.task_runs):
        if audit is None:
            left.append(job)
        else:
            yield audit
    if _all_done(left):  # runs for two datasets of one root do not keep each other out
        yield from _audit(left, profile, audit_dir)
        return
    with alone(audit_dir, "audit", left[0].shards_dir):
        remove_leftovers(audit_dir)
        yield from _audit(left, profile, audit_dir)


def _all_done(jobs: list[AuditJob]) -> bool:
    try:
        return all(finished_by_notes(job) for job in jobs)
    except OSError:  # the audit of that shard tells
        return False


def _audit(left: list[AuditJob], profile: ClusterProfile, audit_dir: Path) -> Iterator[ShardAudit]:
    unfinished = []
    with task_runner(profile, audit_dir) as runner:
        task = stored_in(audit_shards, audit_dir / "results")
        window, size = jobs_in_flight(worker_count(profile)), group_size(len(left), profile.task_runs)
        outcomes = run_in_groups(runner, task, left, window, size)
        for outcome in with_progress(outcomes, "audit-progress", len(left), "shards"):
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
