"""download-metadata: fetch the pinned metadata files of a slice, verify them, and write their manifest."""

from contextlib import nullcontext
from typing import Any

from prefect import flow, get_run_logger
from prefect.task_runners import ThreadPoolTaskRunner

from tasks.contracts.errors import MetadataError, TransientError
from tasks.contracts.layout import DataRoot, GivenPath, absolute
from tasks.io.failure_note import failure_noted
from tasks.io.fingerprints import Verify
from tasks.metadata.fetch import FetchedFile, FetchJob, fetch_jobs
from tasks.metadata.manifest import ManifestSummary
from tasks.metadata.slices import load_slice
from tasks.metadata.task import fetch_metadata_file, write_metadata_manifest
from tasks.running.caching import stored_in
from tasks.running.fanout import run_each
from tasks.running.flow_lock import alone
from tasks.running.outcomes import ends_in_words, run_task
from tasks.running.progress import with_progress

_FILES_AT_A_TIME = 4


@flow(name="download-metadata", flow_run_name="metadata of {dataset_slice} in {root}")
@ends_in_words
def download_metadata(
    root: GivenPath, dataset_slice: str = "datacomp-1b-tutorial", verify: Verify = "changed"
) -> ManifestSummary:
    """Fetch the metadata files of a slice that are not in place, verify all, and write metadata-manifest.json.

    Args:
        root: Data root; the files go to raw/metadata in it.
        dataset_slice: Slice: the name of a shipped one, or the path of a YAML file.
        verify: changed: trust noted hashes of unchanged files; full: hash everything again.
    """
    data = DataRoot(absolute(root))
    slice_ = load_slice(dataset_slice)
    jobs = fetch_jobs(data.metadata, slice_)
    # Two datasets of one root share the metadata: a run does not need the lock when nothing is left to do.
    with nullcontext() if all(job.is_done() for job in jobs) else alone(data.metadata, "fetch of metadata"):
        fetched = _fetch(jobs, data)
    for file in fetched:
        _warn_of_moved(file)
    with failure_noted(data.metadata, "fetch of metadata"):
        return run_task(write_metadata_manifest, data.metadata, slice_, verify)


def _fetch(jobs: list[FetchJob], data: DataRoot) -> list[FetchedFile]:
    task = stored_in(fetch_metadata_file, data.results)
    with ThreadPoolTaskRunner[Any](max_workers=_FILES_AT_A_TIME) as runner:
        fetched = run_each(runner, task, jobs, _FILES_AT_A_TIME)
        outcomes = list(with_progress(fetched, "metadata-progress", len(jobs), "files"))
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        kind = TransientError if all(isinstance(error, TransientError) for error in errors) else MetadataError
        raise kind("\n".join(sorted(str(error) for error in errors)))
    return [FetchedFile.model_validate(outcome.result) for outcome in outcomes]


def _warn_of_moved(fetched: FetchedFile) -> None:
    if fetched.moved_aside:
        get_run_logger().warning("%s was not the pinned file; moved aside to %s", fetched.name, fetched.moved_aside)


if __name__ == "__main__":
    from cli.program import run_program

    run_program(download_metadata)
