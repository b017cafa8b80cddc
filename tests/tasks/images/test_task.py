"""The Prefect tasks around the download, called as plain functions."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prefect.logging import disable_run_logger

from tasks.images import task as module
from tasks.images.completion import ExpectedShard, ShardStats, expected_shards
from tasks.images.download import DownloadSummary
from tasks.images.environment import DownloaderEnvironment
from tasks.images.progress import Progress
from tasks.images.task import build_downloader, download_shards_task
from tasks.images.view import percentage, progress_line, shard_rows
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


def test_build_task_gives_the_environment(downloader: DownloaderEnvironment, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"environment": downloader.python.parents[1]})
    assert build_downloader.fn(tmp_path, settings) == downloader


def test_progress_is_a_line_a_person_understands(tmp_path: Path) -> None:
    stats = ShardStats(1500, 900, 500, 100, {"HTTP Error 404: Not Found": 500})
    expected = [ExpectedShard("00000000", 1500), ExpectedShard("00000001", 3000)]
    progress = Progress(tmp_path, expected, {"00000000": stats}, [stats], {"00000000": 20_000_000}, restarts=1)
    progress.started -= 10
    line = progress_line(progress)
    assert line.startswith(
        "1 of 2 shards done: 1,500 attempts, 900 successes (60.0%), 500 failed downloads, 100 failed resizes; 1"
    )
    assert re.search(r" attempts/s, 0\.02 GB, 0 workers, 1 restarts, [12]\d s left$", line)
    assert percentage(progress) == pytest.approx(100 / 3)


def test_table_has_a_row_for_every_shard(copied: Slice) -> None:
    expected = [*expected_shards(copied.source.rows, SETTINGS), ExpectedShard("00000003", 7)]
    progress = Progress(copied.root.shards, expected)
    progress.begin()
    rows = shard_rows(progress)
    assert [row["state"] for row in rows] == ["done", "done", "done", "waiting"]
    assert rows[0]["most frequent failure"] in ("HTTP Error 404: Not Found (2)", "Image decoding error (2)")


def test_api_that_is_away_does_not_end_the_download(copied: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def away(*_: object) -> None:
        calls.append("tried")
        raise httpx.ConnectError("the API is away")

    monkeypatch.setattr(module, "create_progress_artifact", away)
    progress = Progress(copied.root.shards, expected_shards(copied.source.rows, SETTINGS))
    progress.begin()
    module._ProgressReporter("demo").report(progress)
    assert calls == ["tried"]
