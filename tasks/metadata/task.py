"""Prefect tasks of the metadata stage."""

from pathlib import Path

from prefect import task

from tasks.caching import ReceiptCache
from tasks.fingerprints import Verify
from tasks.metadata.fetch import FetchedFile, FetchJob, fetch_file
from tasks.metadata.manifest import ManifestSummary, verify_metadata, write_manifest
from tasks.metadata.slices import Slice
from tasks.retries import RETRIES
from tasks.words import fails_in_words


@task(
    task_run_name="metadata-{job.pin.name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def fetch_metadata_file(job: FetchJob) -> FetchedFile:
    """Fetch and verify one pinned file.

    A retry is safe: a file that is in place and right is left alone, any other starts anew in a folder of its own.
    """
    return fetch_file(job)


@task(task_run_name="metadata-manifest-{slice_.name}")
@fails_in_words
def write_metadata_manifest(folder: Path, slice_: Slice, verify: Verify = "changed") -> ManifestSummary:
    """Verify all files of the slice together, and write ``metadata-manifest.json``."""
    manifest = verify_metadata(folder, slice_, verify)
    return manifest.summary(write_manifest(folder, manifest))
