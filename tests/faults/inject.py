"""Runs in a worker: record which process did which work, and die in the middle of marked work."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAYS = ("killed once", "killed always", "os._exit", "sys.exit", "memory", "slow", "waits")


def install() -> None:
    """Record work when it begins, since no receipt exists yet; in marked work, die before the receipt is written."""
    from tasks.audit import shard as audit
    from tasks.convert import scan, write

    folder = Path(os.environ["FAULTS"])
    # This runs before any task module has imported these functions.
    _wrap(audit, "audit_shard", lambda job: job.finished() or _note(folder, f"audit-{job.shard}"))
    _wrap(scan, "scan_shard", lambda job: job.finished() or _note(folder, f"scan-{job.shard}"))
    _wrap(write, "write_tar", lambda job: job.finished() or _note(folder, f"write-{job.name}"))
    _wrap(audit, "_audit", lambda job: _die(folder, f"audit-{job.shard}"))
    _wrap(scan, "_summary", lambda job, *_: _die(folder, f"scan-{job.shard}"))
    _wrap(write, "_write_members", lambda _, job, *__: _die(folder, f"write-{job.name}"))


def _wrap(module: Any, name: str, before: Callable[..., Any]) -> None:
    real = getattr(module, name)

    def faulty(*arguments: Any) -> Any:
        before(*arguments)
        return real(*arguments)

    setattr(module, name, faulty)


def _note(folder: Path, work: str) -> None:
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    with (folder / "ran").open("a", encoding="ascii") as file:
        file.write(f"{work} {node} {os.getpid()}\n")


def _die(folder: Path, work: str) -> None:
    mark = folder / work if (folder / work).exists() else folder / work.partition("-")[0]
    if not mark.exists():
        return
    way = mark.read_text(encoding="ascii")
    if way == "killed once":
        mark.unlink()
    if way.startswith("killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "os._exit":
        os._exit(3)
    if way == "sys.exit":
        sys.exit(3)
    if way == "memory":
        _fill_memory()
    if way == "slow":
        time.sleep(1.0)
    while way == "waits" and mark.exists():
        time.sleep(0.1)


def _fill_memory() -> None:
    held = []
    while True:
        held.append(b"x" * 2**24)
        time.sleep(0.02)
