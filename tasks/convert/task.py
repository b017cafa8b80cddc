"""The steps of the conversion as Prefect tasks."""

from prefect import task

from tasks.caching import ReceiptCache
from tasks.convert.models import ScanJob, ScanSummary, WriteJob, WrittenTar
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.errors import ShardError
from tasks.retries import RETRIES
from tasks.words import fails_in_words


@task(
    name="scan-shard",
    task_run_name="scan-{job.shard}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def scan_one_shard(job: ScanJob) -> ScanSummary:
    """Scan one raw shard.

    A retry is safe: the scan only reads the tar and replaces its own table and receipt. Raises ShardError for a
    damaged tar, so that the shard shows as failed; what could be scanned is kept, and the plan decides whether
    the damage is in the way.
    """
    summary = scan_shard(job)
    if summary.trouble:
        raise ShardError(summary.trouble)
    return summary


@task(
    name="write-tar",
    task_run_name="write-{job.tar_name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def write_one_tar(job: WriteJob) -> WrittenTar:
    """Write one output tar.

    A retry is safe: the tar is written under another name and appears whole, always with the same bytes.
    """
    return write_tar(job)
