"""One download a data root: the lock, and the note that says who holds it."""

import json
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tasks.errors import DownloadError
from tasks.images import one_writer as one_writer_module
from tasks.images.one_writer import one_writer


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_writer_module, "SILENT_SECONDS", 4)


def leave_note(folder: Path, host: str) -> Path:
    """The note of a holder elsewhere, who began two hours ago."""
    folder.mkdir(parents=True)
    note = folder / "holder.json"
    note.write_text(json.dumps({"host": host, "pid": 4711, "job": "99", "since": time.time() - 7200}))
    return note


def test_holder_is_named_and_its_note_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "123")
    said = rf"process {os.getpid()} on {socket.gethostname()}, job 123, for 0 minutes"
    folder = tmp_path / "root" / "raw" / "download"
    with one_writer(folder), pytest.raises(DownloadError, match=said), one_writer(folder):
        pass
    assert not (folder / "holder.json").exists()


def test_live_holder_on_another_host_is_respected_where_its_lock_is_not_seen(tmp_path: Path) -> None:
    note = leave_note(tmp_path / "download", "node17")
    beat = threading.Timer(1.5, note.touch)
    beat.start()
    said = "process 4711 on node17, job 99, for 120 minutes"
    with pytest.raises(DownloadError, match=said), one_writer(tmp_path / "download"):
        pass
    beat.join()


@pytest.mark.parametrize("host", ["node17", socket.gethostname()])
def test_note_without_a_sign_of_life_is_ignored(tmp_path: Path, host: str) -> None:
    note = leave_note(tmp_path / "download", host)
    with one_writer(tmp_path / "download"):
        assert json.loads(note.read_text())["pid"] == os.getpid()


def test_broken_note_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "holder.json").write_text("{")
    with one_writer(tmp_path):
        pass
