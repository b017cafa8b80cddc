"""Run Energon in a process of its own: it may call sys.exit, leave processes behind, and it imports torch."""

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
"""Below this size memory is kept for the next picture: to map and unmap it for each takes a quarter of a load's time.
(glibc's own variables; elsewhere they mean nothing.)"""


def run_child(
    module: str, request: dict[str, Any], log: Path, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Run ``python -m <module>`` with ``request`` and return its answer (both JSON objects).

    ``meanwhile`` is called about every second. What the process prints goes to ``log``. It has its own process group,
    which ends with it, with this call and with this process, however that dies. Raises DatasetError, with the log's
    last lines, if the process fails or gives no answer; TransientError if a signal ended it (memory, a machine going
    down).
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder("energon-", "Energon's processes get their requests and leave their answers in it") as folder:
        question, answer = folder / "request.json", folder / "answer.json"
        question.write_text(json.dumps(request))
        status = _run([sys.executable, "-P", "-m", module, str(question), str(answer)], log, meanwhile)
        if status == 0 and answer.exists():
            return dict(json.loads(answer.read_bytes()))
    if status < 0:
        raise TransientError(
            f"{module} {describe_exit(status)} (often: not enough memory); the last lines of {log}:\n{last_lines(log)}"
        )
    raise DatasetError(
        f"Energon {describe_exit(status)} before its work was done ({module}); "
        f"the last lines of {log}:\n{last_lines(log)}"
    )


def last_lines(log: Path) -> str:
    """The end of a log, for quoting."""
    lines = [line.rstrip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  | {line}" for line in lines[-QUOTED_LINES:])


def _run(command: list[str], log: Path, meanwhile: Callable[[], None]) -> int:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, process_group=0, env=_environment()
        )
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(timeout=1)
            meanwhile()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin:
            process.stdin.close()


def _environment() -> dict[str, str]:
    """Our own environment, the same source tree as ours on the path wherever we were started, and no hub."""
    here = str(Path(tasks.__path__[0]).parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    memory = {"MALLOC_MMAP_THRESHOLD_": LARGE_BYTES, "MALLOC_TRIM_THRESHOLD_": LARGE_BYTES}
    return {**memory, **os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}


def answer_parent(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The child's side: read the request, do ``work``, write the answer."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threading.Thread(target=_end_with_workers, daemon=True).start()
    question, answer = map(Path, sys.argv[1:3])
    try:
        answer.write_text(json.dumps(work(json.loads(question.read_bytes()))))
    except BrokenExecutor as error:
        _end(f"a worker process ended: {error}")


def _end_with_parent() -> None:
    # Nothing is ever written to this pipe: reading returns when the parent, and so its end of it, is gone.
    os.read(0, 1)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _end_with_workers() -> None:
    # Energon waits for ever for a worker that was killed (by lack of memory, say): end, and let the parent tell.
    # It ends its workers with SIGTERM itself, when it fails for another reason.
    workers: set[multiprocessing.process.BaseProcess] = set()
    while not (lost := [code for code in (worker.exitcode for worker in workers) if code not in EXPECTED_EXITS]):
        time.sleep(WATCH_SECONDS)
        workers.update(multiprocessing.active_children())
    _end(f"a worker process {describe_exit(lost[0])}")


def _end(cause: str) -> None:
    """End as if by a signal: the parent tries again what a lack of memory ended."""
    sys.stderr.write(f"{cause}\n")
    os.killpg(os.getpgrp(), signal.SIGKILL)
