"""Downloads that would never end: a killed pool worker, servers that drip or hang, an idle downloader."""

import os
import signal
from pathlib import Path

import pytest

from tasks.contracts.errors import DownloadError
from tasks.contracts.layout import DataRoot
from tasks.images import supervise, watchdog
from tasks.images.checkout import check_out
from tasks.images.command import MARK, mark
from tasks.images.completion import ExpectedShard
from tasks.images.environment import DownloaderEnvironment
from tasks.images.process import marked_processes, processes_at_work
from tasks.images.progress import Progress
from tasks.images.supervise import Observer
from tasks.images.watchdog import StalledError, Watchdog
from tests.tasks.images.conftest import OFFICIAL, SETTINGS, Slice, make_slice
from tests.tasks.images.test_download import says
from tests.tasks.images.upstream import Upstream
from tests.tasks.images.web import Web

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(supervise, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(supervise, "SHUTDOWN_GRACE_SECONDS", 3)
    monkeypatch.setattr(watchdog, "IDLE_SECONDS", 6)


def test_killed_pool_worker_is_recovered_from(tmp_path: Path, web: Web, downloader: DownloaderEnvironment) -> None:
    slice_ = make_slice(DataRoot(tmp_path / "root"), web, lambda number: "slow" if number < 5 else "ok")
    web.delay = 6
    killed: list[int] = []

    def kill_worker(progress: Progress) -> None:
        if not killed and progress.workers:
            killed.extend(processes_at_work(MARK, mark(slice_.root.shards), slice_.root.shards))
            os.kill(killed[0], signal.SIGKILL)
            web.delay = 0

    said: list[str] = []
    settings = SETTINGS.model_copy(update={"response_timeout": 5, "stall_restarts": 3})
    summary = slice_.download(downloader, settings, Observer(kill_worker, said.append))
    assert killed and summary.totals.successes == 40
    # On a busy machine the pool's new worker may start too late for the first run.
    assert said and all("no new shard and no new byte" in line and "0 workers at a shard" in line for line in said)
    assert marked_processes(MARK, mark(slice_.root.shards)) == []


def test_server_that_never_ends_its_answer_costs_its_picture_only(
    tmp_path: Path, web: Web, downloader: DownloaderEnvironment
) -> None:
    slice_ = make_slice(DataRoot(tmp_path / "root"), web, lambda number: "drip" if number % 20 == 7 else "ok")
    settings = SETTINGS.model_copy(update={"response_timeout": 3, "timeout": 2, "thread_count": 8})
    said: list[str] = []
    totals = slice_.download(downloader, settings, Observer(warn=said.append)).totals
    assert (totals.successes, totals.failed_to_download, said) == (38, 2, [])
    assert all("timed out" in reason or "took too long" in reason for reason in totals.failures)


def test_official_downloader_survives_a_hostile_web(
    tmp_path: Path, web: Web, official: DownloaderEnvironment, upstream: Upstream
) -> None:
    faults = ["drip", "hang", "reset", "loop", "busy", "html", "missing", "optout", "endless", "huge"]
    slice_ = make_slice(DataRoot(tmp_path / "root"), web, lambda number: dict(enumerate(faults)).get(number, "ok"))
    limits = {"response_timeout": 3, "response_megabytes": 1, "thread_count": 16}
    who = {"upstream_commit": upstream.commit, "user_agent_token": "our-team"}
    check_out(slice_.root.upstream, upstream.url, upstream.commit)
    totals = slice_.download(official, OFFICIAL.model_copy(update=limits | who)).totals
    assert totals.successes == 40 - len(faults)
    assert totals.in_kinds().failures["Use of image disallowed by X-Robots-Tag directive"] == 1
    assert totals.failures["answer is too large"] == 2
    assert {str(agent).partition("(compatible; ")[2].partition(";")[0] for agent in web.agents} == {"our-team"}


def test_downloader_that_waits_for_nothing_is_given_up_with_the_shards_named(slice_: Slice) -> None:
    settings = SETTINGS.model_copy(update={"stall_timeout": 2, "response_timeout": 1, "stall_restarts": 1})
    said: list[str] = []
    waits = says(slice_.root.path, "echo waiting; sleep 300")
    with pytest.raises(DownloadError, match=r"3 of 3 shards are left, and 2 runs in a row.*00000000 \(not") as error:
        slice_.download(waits, settings, Observer(warn=said.append))
    assert "it was ended after no new shard" in str(error.value)
    assert len(said) == 1
    assert marked_processes(MARK, mark(slice_.root.shards)) == []


def test_restart_that_brings_a_shard_renews_the_budget(copied: Slice) -> None:
    """Complete one shard in each run, then fail: three runs are needed, one run without a shard is allowed."""
    shards, aside = copied.root.shards, copied.root.path / "aside"
    aside.mkdir()
    for path in shards.glob("*_stats.json"):
        path.rename(aside / path.name)
    next_one = f"mv \"$(ls '{aside}'/* | head -1)\" '{shards}'; exit 1"
    summary = copied.download(says(copied.root.path, f"cd '{aside}'; {next_one}"), SETTINGS)
    assert summary.new_shards == 3


def test_every_byte_counts_as_progress(tmp_path: Path) -> None:
    progress = Progress(tmp_path, [ExpectedShard("00000000", 5)])
    dog = Watchdog(stall_timeout=0.0)
    dog.check(progress)
    for size in range(1, 4):
        (tmp_path / "00000000.tar").write_bytes(bytes(size))
        progress.look()
        dog.check(progress)
    with pytest.raises(StalledError):
        dog.check(progress)
