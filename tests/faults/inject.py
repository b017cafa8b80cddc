"""In a worker: note which process did which work, and die in the middle of the work that is marked for it."""

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
    """Wrap the heart of every stage's work, which is not entered when a receipt says that it is done."""
    from tasks.audit import shard as audit
    from tasks.convert import scan, write

    folder = Path(os.environ["FAULTS"])
    _wrap(folder, audit, "_audit", lambda job: f"audit-{job.shard}")
    _wrap(folder, scan, "_summary", lambda job, *_: f"scan-{job.shard}")
    _wrap(folder, write, "_write_members", lambda _, job, *__: f"write-{job.tar_name}")


def _wrap(folder: Path, module: Any, name: str, label: Callable[..., str]) -> None:
    real = getattr(module, name)

    def faulty(*arguments: Any) -> Any:
        work = label(*arguments)
        _note(folder, f"{work} {os.environ.get('SLURMD_NODENAME', socket.gethostname())} {os.getpid()}")
        _die(folder, work)
        return real(*arguments)

    setattr(module, name, faulty)


def _note(folder: Path, line: str) -> None:
    with (folder / "ran").open("a", encoding="ascii") as file:
        file.write(f"{line}\n")


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
