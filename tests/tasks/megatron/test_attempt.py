"""A launcher that was running when the run that started it died."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tasks.megatron.attempt import begin, unfinished
from tasks.megatron.job_id import notes_now
from tasks.megatron.launch import LAUNCHER_LOG, found_again, read_record


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NeMo-Run's job file, with an earlier job."""
    monkeypatch.setenv("NEMORUN_HOME", str(tmp_path))
    (tmp_path / ".slurm_jobs").write_text("11 = log*,/elsewhere,LocalTunnel,{}\n")
    return tmp_path / ".slurm_jobs"


def test_job_that_a_launcher_named_is_found_again(tmp_path):
    os.close(begin(tmp_path, "this", notes_now())[1])
    (tmp_path / LAUNCHER_LOG).write_text("- Job id: 42\n")
    record = found_again(tmp_path)
    assert (record.job_id, record.identity) == (42, "this") and read_record(tmp_path) == record
    assert unfinished(tmp_path) is None and found_again(tmp_path) is None


def test_job_that_only_nemo_run_noted_is_found_again(tmp_path, notes):
    os.close(begin(tmp_path, "this", notes_now())[1])
    with notes.open("a") as file:
        file.write("43 = log*,/here,LocalTunnel,{}\n")
    record = found_again(tmp_path)
    assert record is not None and record.job_id == 43


def test_launcher_that_ended_without_a_job_is_forgotten(tmp_path):
    _, lock = begin(tmp_path, "this", notes_now())
    launcher = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,))
    os.close(lock)
    heard: list[object] = []
    hearing = threading.Thread(target=lambda: heard.append(found_again(tmp_path)))
    hearing.start()
    hearing.join(0.5)
    assert hearing.is_alive() and heard == []
    launcher.communicate(b"\n")
    hearing.join(30)
    assert heard == [None] and unfinished(tmp_path) is None and read_record(tmp_path) is None
