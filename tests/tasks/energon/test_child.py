"""A separate process for Energon: its output, its failures, and that it never outlives its parent."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.contracts.errors import DatasetError, TransientError
from tasks.energon.child import run_child

CHILD = "tests.tasks.energon.talking_child"


def pids_in(log: Path) -> list[int]:
    """Wait until the child has logged the process ids, and return them."""
    for _ in range(600):
        for line in log.read_text().splitlines() if log.exists() else []:
            if line.startswith("pids ") and len(line.split()) == 3:
                return [int(word) for word in line.split()[1:]]
        time.sleep(0.05)
    raise AssertionError(f"no process ids in {log}")


def ended(pid: int) -> bool:
    """Return whether a process ends (or is a zombie that waits for its new parent) within half a minute."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_answer_comes_back_and_prints_go_to_the_log(tmp_path: Path) -> None:
    assert run_child(CHILD, {"say": "größer"}, tmp_path / "log") == {"heard": "größer"}
    assert "größer" in (tmp_path / "log").read_text()


def test_exit_without_an_answer_is_an_error_even_with_status_0(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="exit code 0 before its work was done"):
        run_child(CHILD, {"exit": 0}, tmp_path / "log")


def test_failure_quotes_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"exit code 3 (.|\n)*disk is made of cheese"):
        run_child(CHILD, {"say": "disk is made of cheese", "exit": 3}, tmp_path / "log")


def test_killed_process_is_worth_a_retry(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match="was ended by SIGKILL"):
        run_child(CHILD, {"signal": 9}, tmp_path / "log")


def test_losing_a_worker_ends_the_process_instead_of_a_wait_for_ever(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match=r"was ended by SIGKILL(.|\n)*a worker process was ended by SIGKILL"):
        run_child(CHILD, {"lose_worker": True, "sleep": 300}, tmp_path / "log")


def test_losing_one_of_several_loaders_is_worth_a_retry(tmp_path: Path) -> None:
    with pytest.raises(TransientError, match=r"was ended by SIGKILL(.|\n)*a worker process ended"):
        run_child(CHILD, {"lose_pool_worker": True}, tmp_path / "log")


def test_processes_left_behind_are_ended(tmp_path: Path) -> None:
    run_child(CHILD, {"leave": True}, tmp_path / "log")
    assert all(ended(pid) for pid in pids_in(tmp_path / "log"))


def test_child_and_its_children_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "from pathlib import Path; from tasks.energon.child import run_child; "
        f"run_child({CHILD!r}, {{'sleep': 300}}, Path({str(log)!r}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    pids = pids_in(log)
    parent.kill()
    parent.wait()
    assert all(ended(pid) for pid in pids)
