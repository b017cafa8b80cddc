"""The image download as Prefect tasks."""

import json
import re
import time
from pathlib import Path
from typing import cast
from uuid import UUID

import httpx
from prefect import get_run_logger, runtime, task
from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.exceptions import PrefectException

from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.checkout import check_out
from tasks.images.download import DownloadSummary, download_shards, shards_left
from tasks.images.environment import DownloaderEnvironment, environment_folder, environment_for
from tasks.images.identity import DownloadInput
from tasks.images.official import validate_official_settings
from tasks.images.progress import Progress
from tasks.images.supervise import Observer
from tasks.images.view import expected_attempts, failures_in_words, in_words, percentage, progress_line, shard_rows
from tasks.running.outcomes import fails_in_words, run_task
from tasks.running.pace import Pace
from tasks.running.progress import show_on_screen
from tasks.running.retries import RETRIES

REPORT_INTERVAL_SECONDS = 30.0


def fetch_images(
    slice_name: str, root: Path, source: DownloadInput, settings: DownloadSettings, retry_failed: bool = False
) -> DownloadSummary:
    """Build the downloader if a shard is missing, then download, as two task runs.

    Call this from the flow's own thread, so that cancelling the flow stops the download. Raises SettingsError for
    settings that the downloader does not support.
    """
    if settings.downloader == "official":
        validate_official_settings(settings)
    left = shards_left(DataRoot(root), source, settings)
    environment = run_task(build_downloader, root, settings) if left or retry_failed else None
    return run_task(download_shards_task, slice_name, root, source, settings, environment, retry_failed)


@task(
    name="build-downloader",
    task_run_name="downloader-env-{settings.downloader}",
    cache_policy=NO_CACHE,
    **RETRIES,
)
@fails_in_words
def build_downloader(root: Path, settings: DownloadSettings) -> DownloaderEnvironment:
    """Build the downloader environment if it is missing. A retry is safe: a partial environment is never used."""
    data = DataRoot(root)
    if settings.downloader == "official":
        script = check_out(data.upstream, settings.upstream_url, settings.upstream_commit)
        get_run_logger().info("Official downloader: %s at commit %s", script, settings.upstream_commit)
    environment = environment_for(data, settings)
    imported = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    get_run_logger().info("Downloader environment %s: %s", environment_folder(data, settings), imported)
    return environment


@task(
    name="download-shards",
    task_run_name="download-{slice_name}",
    cache_policy=NO_CACHE,
    **RETRIES,
)
@fails_in_words
def download_shards_task(
    slice_name: str,
    root: Path,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: DownloaderEnvironment | None,
    retry_failed: bool = False,
) -> DownloadSummary:
    """Download the missing shards. A retry is safe: it resumes after the shards that are done.

    ``environment`` may be None if no shard is missing: a finished download does not need one.
    """
    data = DataRoot(root)
    logger = get_run_logger()

    def downloader() -> DownloaderEnvironment:
        return environment or environment_for(data, settings)

    observer = Observer(_ProgressReporter(slice_name).report, logger.warning, runtime.flow_run.name)
    summary = download_shards(data, source, settings, downloader, observer, retry_failed)
    logger.info("%d new shards; in all %s", summary.new_shards, in_words(summary.totals))
    return summary


class _ProgressReporter:
    """Reports the progress in two artifacts, and on the terminal or in the log."""

    def __init__(self, slice_name: str) -> None:
        self.slice_name = slice_name
        self.last = -REPORT_INTERVAL_SECONDS
        self.shown: tuple[UUID, UUID] | None = None
        self.pace: Pace | None = None

    def report(self, progress: Progress) -> None:
        """Report progress; artifacts and log at most every REPORT_INTERVAL_SECONDS, and always on completion."""
        on_screen = show_on_screen("download", self._update_pace(progress))
        now = time.monotonic()
        if now - self.last < REPORT_INTERVAL_SECONDS and not progress.complete_for(0):
            return
        self.last = now
        if not on_screen:
            get_run_logger().info("%s. %s", progress_line(progress), failures_in_words(progress.totals))
        try:
            self._update_artifacts(progress)
        except (httpx.HTTPError, PrefectException) as error:
            # Prefect's API may be unreachable for a while, which must not fail a download that takes a day.
            get_run_logger().warning("The view of the download could not be updated: %r", error)

    def _update_pace(self, progress: Progress) -> Pace:
        """Return the pace of the current shards; a retry starts a new one."""
        total, done = expected_attempts(progress), progress.totals.attempts
        if self.pace is None or self.pace.total != total:
            self.pace = Pace(total, "URLs", done)
        self.pace.done = done
        return self.pace

    def _update_artifacts(self, progress: Progress) -> None:
        description = f"{progress_line(progress)}. {failures_in_words(progress.totals)}"
        rows = shard_rows(progress)
        if self.shown is None:
            key = re.sub("[^a-z0-9]+", "-", self.slice_name.lower()).strip("-")
            bar = create_progress_artifact(percentage(progress), f"download-{key}", description)
            table = create_table_artifact(rows, f"download-shards-{key}", "One row a shard")
            self.shown = cast(UUID, bar), cast(UUID, table)
            return
        update_progress_artifact(self.shown[0], percentage(progress), description)
        with get_client(sync_client=True) as client:
            client.update_artifact(self.shown[1], ArtifactUpdate(data=json.dumps(rows)))
