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

    A retry is safe: a scan only reads its tar and replaces its own table and receipt. Raises ShardError for a
    damaged tar, so that the shard shows as failed; what could be scanned is kept, and the plan decides whether
    the damage is in the way.
    """
    return do_each(job, _scan)


def _scan(job: ScanJob) -> None:
    summary = scan_shard(job)
    if summary.trouble:
        raise ShardError(summary.trouble)


@task(name="search-copies", task_run_name="copies-{job.name}", cache_policy=ReceiptCache(), **RETRIES)
@fails_in_words
def search_copies(job: Group[CopiesJob]) -> int:
    """Search parts of the uids for later copies. A retry is safe: a part that has its result is left alone."""
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

    A retry is safe: each tar is written under another name and appears whole, always with the same bytes.
    """
    return do_each(job, write_tar)
