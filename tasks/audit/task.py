"""The audit as Prefect tasks."""

from prefect import get_run_logger, task

from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import ShardError
from tasks.running.caching import ReceiptCache
from tasks.running.groups import SHOWN, Group, do_each
from tasks.running.outcomes import fails_in_words
from tasks.running.retries import RETRIES


@task(
    name="audit-shards",
    task_run_name="audit-{job.name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def audit_shards(job: Group[AuditJob]) -> int:
    """Audit raw shards.

    Safe to retry: the audit only reads the shards and replaces its own indexes and receipts. Raises ShardError
    for a shard with findings, so that it shows as failed; the findings are kept in its receipt.
    """
    return do_each(job, _audit)


def _audit(job: AuditJob) -> None:
    audit = audit_shard(job)
    for finding in audit.findings[:SHOWN]:
        get_run_logger().error("%s", finding)
    if audit.findings:
        raise ShardError(f"{audit.findings[0]}" + _more(len(audit.findings) - 1))


def _more(count: int) -> str:
    return f" (and {count} more findings)" if count else ""
