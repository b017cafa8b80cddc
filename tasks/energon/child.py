"""Energon in a child process: it may call sys.exit or leave processes behind, and it imports torch."""

import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import tasks
from tasks.contracts.errors import DatasetError, TransientError
from tasks.contracts.exit_status import describe_exit
from tasks.io.storage import temporary_folder

QUOTED_LINES = 8
WATCH_SECONDS = 0.5
EXPECTED_EXITS = (None, 0, -signal.SIGTERM)

LARGE_BYTES = str(64 << 20)
"""Size below which glibc keeps freed blocks for reuse: mapping memory for each image takes a quarter of the load time.

Other C libraries ignore glibc's variables.
"""


def run_child(
    module: str, request: dict[str, Any], log: Path, on_tick: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run ``python -m <module>`` with ``request`` and return its result (both JSON objects).

    ``on_tick`` is called about once a second. The process's output goes to ``log``. It has its own process group,
    which is killed when it exits, when this call returns and when this process dies. Raises DatasetError, with the
    log's last lines, if the process fails or writes no result; TransientError if a signal killed it (out of memory,
    host shutdown).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("energon-", "Energon's processes exchange requests and results in it") as folder:
        request_file, result_file = folder / "request.json", folder / "answer.json"
        request_file.write_text(json.dumps(request))
        status = _run_process([sys.executable, "-P", "-m", module, str(request_file), str(result_file)], log, on_tick)
        if status == 0 and result_file.exists():
            return dict(json.loads(result_file.read_bytes()))
    if status < 0:
        raise TransientError(
            f"{module} {describe_exit(status)} (often: not enough memory); the last lines of {log}:\n{last_lines(log)}"
        )
    raise DatasetError(
        f"Energon {describe_exit(status)} before its work was done ({module}); "
        f"the last lines of {log}:\n{last_lines(log)}"
    )


def last_lines(log: Path) -> str:
    """Return the last lines of a log, indented for an error message."""
    lines = [line.rstrip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  | {line}" for line in lines[-QUOTED_LINES:])


def _run_process(command: list[str], log: Path, on_tick: Callable[[], None]) -> int:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, process_group=0, env=_environment()
        )
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=1)
            on_tick()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin:
            process.stdin.close()


def _environment() -> dict[str, str]:
    """Return this process's environment, with this source tree on the path and without access to the hub."""
    here = str(Path(tasks.__path__[0]).parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    memory = {"MALLOC_MMAP_THRESHOLD_": LARGE_BYTES, "MALLOC_TRIM_THRESHOLD_": LARGE_BYTES}
    return {**memory, **os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


def answer_parent(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read the request, do ``work`` and write the result; called in the child process."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    threading.Thread(target=_exit_if_worker_dies, daemon=True).start()
    request_file, result_file = map(Path, sys.argv[1:3])
    try:
        result_file.write_text(json.dumps(work(json.loads(request_file.read_bytes()))))
    except BrokenExecutor as error:
        _kill_own_group(f"a worker process ended: {error}")


def _exit_with_parent() -> None:
    # Nothing is written to this pipe: the read returns when the parent exits and its end closes.
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _exit_if_worker_dies() -> None:
    # Energon waits forever for a killed worker (out of memory, for example), so exit and let the parent report it.
    # SIGTERM is expected: Energon sends it to its workers when it fails for another reason.
    workers: set[multiprocessing.process.BaseProcess] = set()
    while not (lost := [code for code in (worker.exitcode for worker in workers) if code not in EXPECTED_EXITS]):
        time.sleep(WATCH_SECONDS)
        workers.update(multiprocessing.active_children())
    _kill_own_group(f"a worker process {describe_exit(lost[0])}")


def _kill_own_group(cause: str) -> None:
    """Kill this process group: the parent raises TransientError, and the task is retried."""
    sys.stderr.write(f"{cause}\n")
    os.killpg(os.getpgrp(), signal.SIGKILL)
