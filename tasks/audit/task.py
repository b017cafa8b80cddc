"""The audit as Prefect tasks."""

from prefect import get_run_logger, task

from tasks.audit.models import AuditJob, ShardAudit
from tasks.audit.shard import audit_shard
from tasks.caching import ReceiptCache
from tasks.errors import ShardError
from tasks.retries import RETRIES
from tasks.words import fails_in_words


@task(
    name="audit-shard",
    task_run_name="audit-{job.shard}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def audit_one_shard(job: AuditJob) -> ShardAudit:
    """Audit one raw shard.

    A retry is safe: the audit only reads the shard and replaces its own index and receipt. Raises ShardError
    when there are findings, so that the shard shows as failed; they are kept in its receipt.
    """
    audit = audit_shard(job)
    for finding in audit.findings:
        get_run_logger().error("%s", finding)
    if audit.findings:
        raise ShardError(f"{audit.findings[0]}" + _more(len(audit.findings) - 1))
    return audit


def _more(count: int) -> str:
    return f" (and {count} more findings)" if count else ""
