"""One writer for each folder: the lock, and the note that names its holder."""

import getpass
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tasks.contracts.errors import BusyError, PipelineError
from tasks.io import folder_lock as module
from tasks.io.folder_lock import LOCK, NOTE, holder_of, one_writer
from tests.conftest import ROOT

HOLD = """
import sys, time
from pathlib import Path
from tasks.io.folder_lock import one_writer
with one_writer(Path(sys.argv[1]), "conversion", run="olive-fox"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 1)


def leave_note(folder: Path, host: str) -> Path:
    """Write the note of a holder on another host that began two hours ago."""
    folder.mkdir(parents=True)
    note = folder / NOTE
    holder = {"what": "audit", "user": "kim", "host": host, "pid": 4711, "job": "99", "since": time.time() - 7200}
    note.write_text(json.dumps(holder))
    return note


def test_holder_is_named_and_its_note_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "123")
    who = rf"process {os.getpid()} of {getpass.getuser()} on {socket.gethostname()}, job 123, flow run 'olive-fox'"
    said = rf"Another audit is at work in {tmp_path}: {who}, since 20\S+ \S+ UTC \(0 minutes\)"
    folder = tmp_path / "raw" / "audit"
    with one_writer(folder, "audit", tmp_path, run="olive-fox"), pytest.raises(BusyError, match=said):
        one_writer(folder, "audit", tmp_path).__enter__()
    assert not (folder / NOTE).exists()


def test_killed_holder_is_taken_over_with_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout and process.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"process {process.pid} of .* flow run 'olive-fox'"):
            one_writer(tmp_path, "conversion").__enter__()
        process.kill()
    said: list[str] = []
    with one_writer(tmp_path, "conversion", warn=said.append):
        assert json.loads((tmp_path / NOTE).read_text())["pid"] == os.getpid()
    (sentence,) = said
    assert f"taking over {tmp_path} from a conversion that died: process {process.pid} of" in sentence


def test_two_folders_do_not_keep_each_other_out(tmp_path: Path) -> None:
    with one_writer(tmp_path / "energon", "conversion"), one_writer(tmp_path / "other", "conversion"):
        assert (tmp_path / "energon" / NOTE).exists() and (tmp_path / "other" / NOTE).exists()


def test_holder_that_ends_in_a_moment_is_waited_for(tmp_path: Path) -> None:
    holder = one_writer(tmp_path, "download")
    holder.__enter__()
    end = threading.Timer(0.5, holder.__exit__, (None, None, None))
    end.start()
    with one_writer(tmp_path, "download", patience=60):
        end.join()


def test_live_holder_on_another_host_is_respected_where_its_lock_is_not_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_SECONDS", 60)
    note = leave_note(tmp_path / "download", "node17")
    beat = threading.Timer(1.5, note.touch)
    beat.start()
    said = r"process 4711 of kim on node17, job 99, since .* \(120 minutes\)"
    with pytest.raises(BusyError, match=said), one_writer(tmp_path / "download", "download"):
        pass
    beat.join()


def test_holder_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.05)
    with one_writer(tmp_path, "download"):
        os.utime(tmp_path / NOTE, (1, 1))
        end = time.monotonic() + 30
        while (tmp_path / NOTE).stat().st_mtime == 1:
            assert time.monotonic() < end
            time.sleep(0.02)


@pytest.mark.parametrize("host", ["node17", socket.gethostname()])
def test_note_without_a_sign_of_life_is_taken_over(tmp_path: Path, host: str) -> None:
    note = leave_note(tmp_path / "download", host)
    said: list[str] = []
    with one_writer(tmp_path / "download", "download", warn=said.append):
        assert json.loads(note.read_text())["pid"] == os.getpid()
    assert len(said) == 1 and f"process 4711 of kim on {host}" in said[0]


def test_lock_that_a_lost_host_left_on_the_server_has_a_way_out(tmp_path: Path) -> None:
    """Delete the file that the message names; the next run then watches for a sign of life and gets the lock."""
    folder = tmp_path / "download"
    with one_writer(folder, "download"):
        leave = json.loads((folder / NOTE).read_text()) | {"host": "node17"}
        (folder / NOTE).write_text(json.dumps(leave))
        with pytest.raises(BusyError, match=f"If that host is gone for good, delete {folder / LOCK} and start"):
            one_writer(folder, "download").__enter__()
        (folder / LOCK).unlink()
        with one_writer(folder, "download"):
            pass


def test_broken_note_is_ignored(tmp_path: Path) -> None:
    (tmp_path / NOTE).write_text("{")
    with one_writer(tmp_path, "download"):
        pass


def test_a_subfolder_that_is_a_link_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "prepare", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "results").symlink_to(elsewhere)
    with pytest.raises(PipelineError, match="results is a link to the folder"), one_writer(folder, "conversion"):
        raise AssertionError("the block was entered")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(("ahead", "alive"), [(0, True), (86_400, False), (-86_400, False)])
def test_holder_whose_clock_is_a_day_off_does_not_count_as_alive_for_ever(
    tmp_path: Path, ahead: int, alive: bool
) -> None:
    note = leave_note(tmp_path / "download", "node17")
    now = time.time() + ahead
    os.utime(note, (now, now))
    found = holder_of(tmp_path / "download")
    assert found is not None and found[1] is alive
