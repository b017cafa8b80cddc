"""audit-download: hold every raw shard against its stats, and the totals against the gate."""

from collections.abc import Iterator
from pathlib import Path

from prefect import flow, get_run_logger

from deployments.dask import task_runner, worker_count
from deployments.profiles import ClusterProfile, load_profile
from flows.program import run_program
from tasks.audit.gate import add_up, check_gate, shard_names
from tasks.audit.models import AuditJob, AuditTotals, Finding, ShardAudit
from tasks.audit.task import audit_one_shard
from tasks.caching import stored_in
from tasks.errors import PipelineError, SettingsError
from tasks.fanout import jobs_in_flight, run_each
from tasks.files import remove_leftovers, write_json
from tasks.fingerprints import Verify
from tasks.layout import absolute, default_audit_dir
from tasks.progress import show_table, with_progress
from tasks.receipts import timed
from tasks.settings import GateSettings
from tasks.words import ends_in_words


@flow(name="audit-download", flow_run_name="audit {shards_dir}")
@ends_in_words
def audit_download(
    shards_dir: Path,
    audit_dir: Path | None = None,
    gate: GateSettings = GateSettings(),
    cluster: str = "local",
    verify: Verify = "changed",
    metadata_sha256: str | None = None,
) -> AuditTotals:
    """Audit every raw shard, index it, and hold the totals to the gate.

    Args:
        shards_dir: Folder of the raw shards; may be read-only.
        audit_dir: Folder for indexes and receipts; null: raw/audit of the data root that the shards lie in.
        gate: What the shards must add up to.
        cluster: Cluster profile: the name of a shipped one, or the path of a YAML file.
        verify: changed: trust noted hashes of unchanged files; full: hash everything again.
        metadata_sha256: Identity of the metadata slice that the shards were downloaded from, part of the cache key.
    """
    shards_dir = absolute(shards_dir)
    audit_dir = absolute(audit_dir) if audit_dir else default_audit_dir(shards_dir)
    if audit_dir is None:
        raise SettingsError(
            f"audit_dir: the shards lie in {shards_dir}, not in a data root's raw/shards; name a folder"
        )
    profile = load_profile(cluster)
    shards, foreign = shard_names(shards_dir)
    remove_leftovers(audit_dir)
    jobs = [
        AuditJob(
            shards_dir=shards_dir, audit_dir=audit_dir, shard=shard, metadata_sha256=metadata_sha256, verify=verify
        )
        for shard in shards
    ]
    with timed(audit_dir, "audit"):
        audits = list(_run(jobs, profile, audit_dir))
    totals = add_up(audits, foreign)
    write_json(audit_dir / "totals.json", totals.model_dump(mode="json"))
    findings: list[Finding] = [*foreign, *(finding for audit in audits for finding in audit.findings)]
    write_json(audit_dir / "findings.json", [finding.model_dump(mode="json") for finding in findings])
    _say(totals)
    _show(audits, totals)
    check_gate(totals, gate, findings)
    return totals


def _run(jobs: list[AuditJob], profile: ClusterProfile, audit_dir: Path) -> Iterator[ShardAudit]:
    """Audit all shards; their receipts are what counts, in the shards' order."""
    errors: dict[str, BaseException] = {}
    with task_runner(profile) as runner:
        task = stored_in(audit_one_shard, audit_dir / "results")
        outcomes = run_each(runner, task, jobs, jobs_in_flight(worker_count(profile)))
        for outcome in with_progress(outcomes, "audit-progress", len(jobs), "shards"):
            if outcome.error is not None:
                errors[outcome.job.shard] = outcome.error
    for job in jobs:
        audit = job.finished()
        if audit is None:
            raise PipelineError(f"{job} did not finish: {errors.get(job.shard, 'no valid receipt')}; run again")
        yield audit


def _show(audits: list[ShardAudit], totals: AuditTotals) -> None:
    reasons = [{"reason": reason, "URLs": count} for reason, count in totals.failure_reasons.items()]
    show_table("failure-reasons", reasons, f"{totals.attempts - totals.successes:,} of {totals.attempts:,} URLs failed")
    shards = [
        {
            "shard": audit.shard,
            "attempts": audit.stats.count,
            "successes": audit.stats.successes,
            "samples": audit.samples,
            "bytes": audit.tar_bytes,
            "findings": len(audit.findings),
        }
        for audit in audits
    ]
    show_table("raw-shards", shards, f"{totals.shards:,} complete raw shards")


def _say(totals: AuditTotals) -> None:
    get_run_logger().info(
        "%d shards: %d attempts, %d successes, %d findings; failures: %s",
        totals.shards,
        totals.attempts,
        totals.successes,
        totals.findings,
        totals.failure_reasons,
    )


if __name__ == "__main__":
    run_program(audit_download)
