"""The steps of the conversion as Prefect tasks."""

from prefect import task

from tasks.contracts.errors import ShardError
from tasks.convert.models import ScanJob, WriteJob
from tasks.convert.scan import scan_shard
from tasks.convert.uids import CopiesJob, find_copies
from tasks.convert.write import write_tar
from tasks.running.caching import ReceiptCache
from tasks.running.groups import Group, do_each
from tasks.running.outcomes import fails_in_words
from tasks.running.retries import RETRIES


@task(
    name="scan-shards",
    task_run_name="scan-{job.name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def scan_shards(job: Group[ScanJob]) -> int:
    """Scan raw shards.

    Safe to retry: a scan only reads its tar and replaces its own table and receipt. Raises ShardError for a damaged
    tar, so that the shard shows as failed; the samples before the damage are kept, and the plan decides whether it
    needs the rest.
    """
    return do_each(job, _scan)


def _scan(job: ScanJob) -> None:
    summary = scan_shard(job)
    if summary.trouble:
        raise ShardError(summary.trouble)


@task(name="search-copies", task_run_name="copies-{job.name}", cache_policy=ReceiptCache(), **RETRIES)
@fails_in_words
def search_copies(job: Group[CopiesJob]) -> int:
    """Search parts of the uids for later copies. Safe to retry: parts that have a result are skipped."""
    return do_each(job, find_copies)


@task(
    name="write-tars",
    task_run_name="write-{job.name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def write_tars(job: Group[WriteJob]) -> int:
    """Write output tars.

    Safe to retry: each tar is written under a temporary name and renamed when complete, always with the same bytes.
    """
    return do_each(job, write_tar)
