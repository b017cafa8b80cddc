"""One download a data root: the lock, and the note that says who holds it."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from tasks.errors import DownloadError
from tasks.images.one_writer import STALE_SECONDS, one_writer


def leave_note(folder: Path, host: str, age: float) -> Path:
    """The note of a holder elsewhere, last touched ``age`` seconds ago."""
    folder.mkdir(parents=True)
    note = folder / "holder.json"
    note.write_text(json.dumps({"host": host, "pid": 4711, "job": "99", "since": time.time() - 7200}))
    os.utime(note, (time.time() - age, time.time() - age))
    return note


def test_holder_is_named_and_its_note_goes_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "123")
    said = rf"process {os.getpid()} on {socket.gethostname()}, job 123, for 0 minutes"
    folder = tmp_path / "root" / "raw" / "download"
    with one_writer(folder), pytest.raises(DownloadError, match=said), one_writer(folder):
        pass
    assert not (folder / "holder.json").exists()


def test_live_holder_on_another_host_is_respected_where_its_lock_is_not_seen(tmp_path: Path) -> None:
    leave_note(tmp_path / "download", "node17", age=5)
    said = "process 4711 on node17, job 99, for 120 minutes"
    with pytest.raises(DownloadError, match=said), one_writer(tmp_path / "download"):
        pass


@pytest.mark.parametrize(("host", "age"), [("node17", STALE_SECONDS + 60), (socket.gethostname(), 1.0)])
def test_stale_note_is_ignored(tmp_path: Path, host: str, age: float) -> None:
    note = leave_note(tmp_path / "download", host, age)
    with one_writer(tmp_path / "download"):
        assert json.loads(note.read_text())["pid"] == os.getpid()


def test_broken_note_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "holder.json").write_text("{")
    with one_writer(tmp_path):
        pass
