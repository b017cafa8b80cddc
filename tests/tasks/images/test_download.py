"""Downloads that are repeated, killed, resumed or rejected: the real img2dataset on a loopback web server."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.contracts.errors import BusyError, DownloadError
from tasks.contracts.layout import DataRoot
from tasks.images import supervise
from tasks.images.command import MARK, mark
from tasks.images.download import DownloadSummary, download_shards, shards_left
from tasks.images.environment import DownloaderEnvironment
from tasks.images.identity import claim, identity
from tasks.images.process import marked_processes
from tasks.images.progress import Progress
from tasks.images.supervise import Observer
from tests.tasks.images.conftest import SETTINGS, Slice, make_slice
from tests.tasks.images.web import Web

pytestmark = pytest.mark.xdist_group("images")

FIRST_SHARD = 15


@pytest.fixture
def slow_slice(tmp_path: Path, web: Web) -> Slice:
    """A slice whose first shard is fast; the others do not finish while ``web.delay`` is long."""
    web.delay = 4.0
    return make_slice(DataRoot(tmp_path / "slow"), web, lambda number: "ok" if number < FIRST_SHARD else "slow")


def no_environment() -> DownloaderEnvironment:
    pytest.fail("asked for an environment")


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail("waited too long")
        time.sleep(0.1)


def start(slice_: Slice, downloader: DownloaderEnvironment) -> subprocess.Popen[bytes]:
    given = {
        "root": str(slice_.root.path),
        "source": slice_.source.model_dump(mode="json"),
        "settings": SETTINGS.model_dump(mode="json"),
        "python": str(downloader.python),
    }
    return subprocess.Popen([sys.executable, "-m", "tests.tasks.images.run_download", json.dumps(given)])


def processes(slice_: Slice) -> list[int]:
    return marked_processes(MARK, mark(slice_.root.shards))


def in_second_shard(slice_: Slice) -> Callable[[], bool]:
    shards = slice_.root.shards
    return lambda: (shards / "00000000_stats.json").exists() and (shards / "00000001.tar").exists()


def test_second_run_does_nothing(copied: Slice, finished: tuple[Slice, DownloadSummary]) -> None:
    files = modified(copied.root.path)
    summary = download_shards(copied.root, copied.source, SETTINGS, no_environment)
    assert summary == finished[1].model_copy(update={"new_shards": 0})
    assert files == modified(copied.root.path)


def modified(root: Path) -> dict[Path, int]:
    """Return the mtime of each file of a data root."""
    return {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_resume_after_kill_keeps_finished_shards(
    slow_slice: Slice, downloader: DownloaderEnvironment, web: Web, number: signal.Signals
) -> None:
    program = start(slow_slice, downloader)
    wait_for(in_second_shard(slow_slice))
    assert len(processes(slow_slice)) >= 2
    program.send_signal(number)
    assert program.wait(30) != 0
    wait_for(lambda: not processes(slow_slice), seconds=10)
    first = slow_slice.root.shards / "00000000.tar"
    before = first.stat().st_mtime_ns
    web.delay = 0
    assert slow_slice.download(downloader).new_shards == 2
    assert first.stat().st_mtime_ns == before
    assert web.requests["/ok/0"] == 1
    assert not shards_left(slow_slice.root, slow_slice.source, SETTINGS)


def test_killed_downloader_is_started_again(
    slow_slice: Slice, downloader: DownloaderEnvironment, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(supervise, "PAUSE_SECONDS", 0)
    ready, said = in_second_shard(slow_slice), list[str]()

    def kill_leader(progress: Progress) -> None:
        if ready() and not progress.restarts:
            web.delay = 0
            for pid in processes(slow_slice):
                if os.getpgid(pid) == pid:
                    os.kill(pid, signal.SIGKILL)

    summary = slow_slice.download(downloader, observer=Observer(kill_leader, said.append))
    assert summary.totals.shards == 3
    assert said == ["The downloader is started again: it was ended by SIGKILL; 2 of 3 shards are left."]
    assert processes(slow_slice) == []


def test_exception_in_the_flow_leaves_no_downloader_behind(
    slow_slice: Slice, downloader: DownloaderEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.2)
    ready = in_second_shard(slow_slice)

    def interrupt(_: Progress) -> None:
        if ready():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        slow_slice.download(downloader, observer=Observer(interrupt))
    assert processes(slow_slice) == []


def test_pool_that_replaces_its_workers_comes_to_an_end(slice_: Slice, downloader: DownloaderEnvironment) -> None:
    settings = SETTINGS.model_copy(update={"processes_count": 2, "number_sample_per_shard": 2})
    assert slice_.download(downloader, settings).new_shards == 21
    timing = json.loads((slice_.root.download / "timings.jsonl").read_text())
    assert timing["exit_code"] == 0


def test_downloader_that_hangs_after_its_last_shard_is_ended(copied: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervise, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(supervise, "SHUTDOWN_GRACE_SECONDS", 0.5)
    last = copied.root.shards / "00000002_stats.json"
    last.rename(copied.root.path / "stats")
    hangs = says(copied.root.path, f"mv '{copied.root.path}/stats' '{last}'; sleep 300")
    assert copied.download(hangs).new_shards == 1
    assert processes(copied) == []


def does_nothing(folder: Path) -> DownloaderEnvironment:
    """Return a downloader that prints something and exits with code 0."""
    return says(folder, "echo one line; echo the last line; exit 0")


def says(folder: Path, script: str) -> DownloaderEnvironment:
    """Return a downloader that is a shell script."""
    fake = folder / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    return DownloaderEnvironment(fake, "fake", {})


def test_leftover_process_of_an_earlier_run_is_ended_first(slice_: Slice) -> None:
    with subprocess.Popen(["sleep", "300"], env={MARK: mark(slice_.root.shards)}) as leftover:
        reaper = threading.Thread(target=leftover.wait)
        reaper.start()
        with pytest.raises(DownloadError, match="shards are left"):
            slice_.download(does_nothing(slice_.root.path))
        assert leftover.wait(10) == -signal.SIGKILL
        reaper.join()


def test_exit_code_0_alone_proves_nothing(slice_: Slice) -> None:
    with pytest.raises(DownloadError, match="3 of 3 shards are left, and 1 runs in a row brought no new one") as error:
        slice_.download(does_nothing(slice_.root.path))
    assert "00000000 (not downloaded)" in str(error.value)
    assert "exit code 0" in str(error.value)
    assert "the last line" in str(error.value)


def test_shards_whose_stats_prove_nothing_are_downloaded_again(
    copied: Slice, downloader: DownloaderEnvironment, finished: tuple[Slice, DownloadSummary]
) -> None:
    shards = copied.root.shards
    (shards / "00000000_stats.json").write_text('{"count": 15')
    (shards / "00000002.tar").write_bytes(b"")
    untouched = (shards / "00000001_stats.json").read_bytes()
    assert copied.download(downloader) == finished[1].model_copy(update={"new_shards": 2})
    assert (shards / "00000001_stats.json").read_bytes() == untouched


def test_foreign_file_among_the_shards_is_refused_by_name(slice_: Slice) -> None:
    half_downloaded(slice_)
    (slice_.root.shards / "notes.json").write_text("{}")
    with pytest.raises(DownloadError, match=r"no expected shard: notes\.json"):
        download_shards(slice_.root, slice_.source, SETTINGS, no_environment)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"number_sample_per_shard": 10}, "number_sample_per_shard was 15, is 10"),
        ({"image_size": 32}, "image_size was 64, is 32"),
        ({"blur_faces": False}, "blur_faces was True, is False"),
    ],
)
def test_resume_with_other_settings_is_refused(slice_: Slice, change: dict[str, object], said: str) -> None:
    half_downloaded(slice_)
    with pytest.raises(DownloadError, match=said):
        download_shards(slice_.root, slice_.source, SETTINGS.model_copy(update=change), no_environment)


def test_resume_with_other_metadata_is_refused(slice_: Slice) -> None:
    half_downloaded(slice_)
    other = slice_.source.model_copy(update={"metadata_sha256": "cd" * 32})
    with pytest.raises(DownloadError, match="metadata_sha256 was"):
        download_shards(slice_.root, other, SETTINGS, no_environment)


def test_settings_that_only_change_the_speed_may_change_between_runs(copied: Slice) -> None:
    settings = SETTINGS.model_copy(update={"thread_count": 2, "retries": 1, "timeout": 3})
    assert download_shards(copied.root, copied.source, settings, no_environment).new_shards == 0


def test_settings_of_a_run_that_left_no_shard_may_change(slice_: Slice) -> None:
    claim(slice_.root, identity(slice_.source, SETTINGS))
    claim(slice_.root, identity(slice_.source, SETTINGS.model_copy(update={"image_size": 32})))


def half_downloaded(slice_: Slice) -> None:
    claim(slice_.root, identity(slice_.source, SETTINGS))
    slice_.root.shards.mkdir(parents=True)
    (slice_.root.shards / "00000000.tar").write_bytes(b"half")


def test_shards_of_unknown_origin_are_not_resumed(slice_: Slice) -> None:
    slice_.root.shards.mkdir(parents=True)
    (slice_.root.shards / "00000000.tar").write_bytes(b"from elsewhere")
    with pytest.raises(DownloadError, match=r"1 files \(00000000.tar\), but nothing notes which metadata"):
        download_shards(slice_.root, slice_.source, SETTINGS, no_environment)


def test_stray_and_missing_metadata_files_are_named(slice_: Slice, downloader: DownloaderEnvironment) -> None:
    (slice_.root.metadata / "a.parquet").rename(slice_.root.metadata / "0.parquet")
    with pytest.raises(DownloadError, match=r"missing \['a.parquet'\], not pinned \['0.parquet'\]"):
        slice_.download(downloader)


def test_second_download_into_one_root_is_refused(slow_slice: Slice, downloader: DownloaderEnvironment) -> None:
    program = start(slow_slice, downloader)
    wait_for((slow_slice.root.download / "img2dataset.log").exists)
    try:
        with pytest.raises(
            BusyError, match=rf"Another download is at work in .*: process {program.pid} of \S+ on \S+, "
        ):
            download_shards(slow_slice.root, slow_slice.source, SETTINGS, no_environment)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    wait_for(lambda: not processes(slow_slice), seconds=10)
