"""Prefect tasks of the metadata stage."""

from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_table_artifact

from tasks.contracts.settings import DownloadSettings, Finding
from tasks.io.fingerprints import Verify
from tasks.metadata.fetch import FetchJob, fetch_file
from tasks.metadata.hub import Source
from tasks.metadata.look import REFUSED, MetadataLook, look_once, refuse_findings
from tasks.metadata.manifest import ManifestSummary, verify_metadata, write_manifest
from tasks.metadata.pin import pin_file
from tasks.metadata.slices import Slice, SliceFile
from tasks.running.caching import ReceiptCache
from tasks.running.outcomes import fails_in_words
from tasks.running.retries import RETRIES


@task(
    task_run_name="metadata-{job.pin.name}",
    cache_policy=ReceiptCache(),
    **RETRIES,
)
@fails_in_words
def fetch_metadata_file(job: FetchJob) -> dict[str, Any]:
    """Fetch and verify one pinned file; return a FetchedFile as plain values, the only type that the cache stores.

    A retry is safe: a valid file in place is kept, and every download starts in a temporary folder of its own.
    """
    return fetch_file(job).model_dump(mode="json")


@task(task_run_name="metadata-manifest-{slice_.name}")
@fails_in_words
def write_metadata_manifest(folder: Path, slice_: Slice, verify: Verify = "changed") -> ManifestSummary:
    """Verify all files of the slice together, and write ``metadata-manifest.json``."""
    manifest = verify_metadata(folder, slice_, verify)
    return manifest.summary(write_manifest(folder, manifest))


@task(task_run_name="pin-{name}", **RETRIES)
@fails_in_words
def pin_metadata_file(folder: Path, source: Source, name: str) -> SliceFile:
    """Fetch one file and pin it. A retry is safe: a file in place is only verified."""
    return pin_file(folder, source, name)


@task(task_run_name="metadata-look-{slice_.name}")
@fails_in_words
def look_at_metadata(folder: Path, slice_: Slice, settings: DownloadSettings) -> MetadataLook:
    """Scan every row once, report the findings, and raise MetadataError for those that stop a download."""
    look = look_once(folder, [file.name for file in slice_.files], slice_.metadata_sha256)
    accepted = settings.accepted_findings
    for sentence in look.in_words():
        get_run_logger().info("Metadata of %s: %s", slice_.name, sentence)
    create_table_artifact(
        [_row(look, kind, kind in REFUSED and kind not in accepted) for kind in look.counts],
        key="metadata-look",
        description=f"What stands out in the {look.rows:,} rows of {slice_.name}",
    )
    refuse_findings(look, accepted)
    return look


def _row(look: MetadataLook, kind: Finding, stops: bool) -> dict[str, str | int]:
    return {"finding": kind, "count": look.counts[kind], "stops": "yes" if stops else "no", "first": look.first[kind]}
