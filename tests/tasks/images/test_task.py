"""The Prefect tasks around the download, called as plain functions."""

from collections.abc import Iterator

import pytest
from prefect.logging import disable_run_logger

from tasks.images import task as module
from tasks.images.completion import ExpectedShard, ShardStats
from tasks.images.download import DownloadSummary, Progress
from tasks.images.environment import DownloaderEnvironment
from tasks.images.task import build_downloader, download_shards_task
from tests.tasks.images.conftest import SETTINGS, Slice

pytestmark = pytest.mark.xdist_group("images")


@pytest.fixture(autouse=True)
def no_run_logger() -> Iterator[None]:
    with disable_run_logger():
        yield


def test_finished_download_needs_no_environment(copied: Slice, finished: tuple[Slice, DownloadSummary]) -> None:
    summary = download_shards_task.fn("demo", copied.root.path, copied.source, SETTINGS, None)
    assert summary.new_shards == 0
    assert summary.totals == finished[1].totals


def test_build_task_gives_the_environment(downloader: DownloaderEnvironment) -> None:
    assert build_downloader.fn(downloader.python.parents[1]) == downloader


def test_progress_is_a_line_a_person_understands(copied: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_EVERY_SECONDS", 0)
    lines: list[str] = []
    done = {"00000000": ShardStats(1500, 900, 500, 100, {})}
    progress = Progress(copied.root.shards, [ExpectedShard("00000000", 1500), ExpectedShard("00000001", 9)], done)
    module._reporter(lines.append)(progress)
    assert lines == [
        "1 of 2 shards done: 1,500 attempts, 900 successes (60.0%), 500 failed downloads, 100 failed resizes"
    ]
