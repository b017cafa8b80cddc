"""The downloader as a process group: started, watched, and terminated completely."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tasks.contracts.errors import DownloadError

GRACE_SECONDS = 5.0


def run_once(
    command: list[str],
    environ: Mapping[str, str],
    log: Path,
    should_stop: Callable[[], bool],
    poll_seconds: float,
) -> int | None:
    """Run ``command`` in a process group of its own; return its exit code, or None if it was stopped.

    Append its output to ``log``. Call ``should_stop`` every ``poll_seconds``. If it returns true, and at any exception
    from it or from outside, terminate the whole group.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _wait(process, should_stop, poll_seconds)
    finally:
        end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Terminate every process in the group that ``process`` leads: SIGTERM, then SIGKILL after GRACE_SECONDS.

    Members may outlive their leader, so signal the group even if ``process`` has ended.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        if _wait_until(lambda: process.poll() is not None and not _group_lives(process.pid), GRACE_SECONDS):
            return


def end_leftovers(name: str, value: str) -> None:
    """Kill processes whose environment variable ``name`` is ``value``: leftovers of a killed run.

    Covers this user's processes on this machine, if /proc exists. Raises DownloadError if one cannot be killed.
    """
    if not marked_processes(name, value):
        return
    for pid in marked_processes(name, value):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if not _wait_until(lambda: not marked_processes(name, value), GRACE_SECONDS):
        raise DownloadError(
            f"Processes {marked_processes(name, value)} of an earlier download of {value} do not end; "
            "see what they wait for (a file system that hangs?), then start again."
        )


def marked_processes(name: str, value: str) -> list[int]:
    """Return the ids of live processes in whose environment ``name`` is ``value``."""
    wanted = f"{name}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def processes_at_work(name: str, value: str, folder: Path) -> list[int]:
    """Return the marked processes that have a shard in ``folder`` open: the downloader's workers."""
    return [pid for pid in marked_processes(name, value) if _has_shard_open(pid, str(folder.resolve()))]


def _has_shard_open(pid: int, folder: str) -> bool:
    files = []
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                files.append(str(link.readlink()))
    return any(name.startswith(folder + os.sep) and name.endswith(".tar") for name in files)


def log_since(log: Path, start: int) -> str:
    """Return what was written to ``log`` after byte ``start``, at most the last 200,000 bytes."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - 200_000))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _wait(process: subprocess.Popen[bytes], should_stop: Callable[[], bool], poll_seconds: float) -> int | None:
    while True:
        try:
            return process.wait(poll_seconds)
        except subprocess.TimeoutExpired:
            if should_stop():
                return None


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
