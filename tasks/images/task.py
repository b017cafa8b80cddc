"""The image download as Prefect tasks."""

import time
from collections.abc import Callable
from pathlib import Path

from prefect import get_run_logger, task
from prefect.cache_policies import NO_CACHE

from tasks.images.download import DownloadSummary, Progress, download_shards, shards_left
from tasks.images.environment import DownloaderEnvironment, build_environment, environment_folder
from tasks.images.identity import DownloadInput
from tasks.images.totals import DownloadTotals
from tasks.layout import DataRoot
from tasks.retries import RETRIES
from tasks.settings import DownloadSettings

LOG_EVERY_SECONDS = 30.0


def fetch_images(slice_name: str, root: Path, source: DownloadInput, settings: DownloadSettings) -> DownloadSummary:
    """Build the downloader if a shard is left, then download: the two tasks as every flow wants them.

    Call it from the flow's own thread, so that cancelling the flow ends the download.
    """
    data = DataRoot(root)
    left = shards_left(data, source, settings)
    environment = build_downloader(environment_folder(data, settings)) if left else None
    return download_shards_task(slice_name, root, source, settings, environment)


@task(
    name="build-downloader",
    task_run_name="downloader-env-current",
    cache_policy=NO_CACHE,
    **RETRIES,
)
def build_downloader(folder: Path) -> DownloaderEnvironment:
    """Build the downloader environment, or find it good. A retry is safe: half of one is never taken for whole."""
    environment = build_environment(folder)
    imported = ", ".join(f"{name} {version}" for name, version in environment.versions.items())
    get_run_logger().info("Downloader environment %s: %s", folder, imported)
    return environment


@task(
    name="download-shards",
    task_run_name="download-{slice_name}",
    cache_policy=NO_CACHE,
    **RETRIES,
)
def download_shards_task(
    slice_name: str,
    root: Path,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: DownloaderEnvironment | None,
) -> DownloadSummary:
    """Download the shards that are missing. A retry is safe: it goes on after the shards that are done.

    ``environment`` may be None where no shard is left: a finished download needs none.
    """
    data = DataRoot(root)

    def downloader() -> DownloaderEnvironment:
        return environment or build_environment(environment_folder(data, settings))

    logger = get_run_logger()
    summary = download_shards(data, source, settings, downloader, _reporter(logger.info))
    logger.info("%d new shards; in all %s", summary.new_shards, _in_words(summary.totals))
    return summary


def _reporter(log: Callable[[str], None]) -> Callable[[Progress], None]:
    """Log a line every LOG_EVERY_SECONDS, however often progress is reported."""
    last = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_EVERY_SECONDS:
            last = time.monotonic()
            log(f"{len(progress.done)} of {len(progress.expected)} shards done: {_in_words(progress.totals)}")

    return report


def _in_words(totals: DownloadTotals) -> str:
    share = totals.successes / totals.attempts if totals.attempts else 0.0
    return (
        f"{totals.attempts:,} attempts, {totals.successes:,} successes ({share:.1%}), "
        f"{totals.failed_to_download:,} failed downloads, {totals.failed_to_resize:,} failed resizes"
    )
