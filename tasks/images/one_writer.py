"""One download a data root: who holds it, since when, and whether a note of an earlier holder is stale."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import DownloadError
from tasks.files import write_json
from tasks.images.locks import exclusive

SILENT_SECONDS = 90.0
"""A holder on another host that does not touch its note for this long, while we watch, is taken for dead."""


class Holder(BaseModel):
    """Who downloads: host, process, batch job if any, and when it began (seconds since 1970)."""

    model_config = ConfigDict(frozen=True)

    host: str
    pid: int
    job: str | None
    since: float


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[Path]:
    """Keep a second download out while the block runs; gives the holder's note, to be touched now and then.

    The lock is the system's and ends with its holder. Where hosts do not see each other's locks, the note decides:
    that of another host is watched for a sign of life. Raises DownloadError that names the holder.
    """
    note = folder / "holder.json"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive(folder / "lock", wait=False))
        except BlockingIOError:
            raise DownloadError(_busy(folder, _read(note))) from None
        other = _read(note)
        if other and _lives(other, note):
            raise DownloadError(_busy(folder, other))
        write_json(note, _myself().model_dump())
        stack.callback(note.unlink, missing_ok=True)
        yield note


def _myself() -> Holder:
    job = next((os.environ[name] for name in ("SLURM_JOB_ID", "PBS_JOBID") if name in os.environ), None)
    return Holder(host=socket.gethostname(), pid=os.getpid(), job=job, since=time.time())


def _lives(other: Holder, note: Path) -> bool:
    """Whether the holder is still at work. We hold the lock, so nobody on this host is; another host is watched."""
    if other.host == socket.gethostname():
        return False
    seen, end = _touched(note), time.monotonic() + SILENT_SECONDS
    while time.monotonic() < end:
        time.sleep(1)
        if _touched(note) != seen:
            return note.exists()
    return False


def _touched(note: Path) -> int | None:
    """When the note was touched; opened for it, since NFS asks the server again only then."""
    try:
        with note.open() as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None


def _busy(folder: Path, holder: Holder | None) -> str:
    if holder is None:
        return f"Another download is at work in {folder.parent.parent}; wait for it or end it."
    job = f", job {holder.job}" if holder.job else ""
    minutes = max(0.0, time.time() - holder.since) / 60
    return (
        f"Another download is at work in {folder.parent.parent}: process {holder.pid} on {holder.host}{job}, for "
        f"{minutes:.0f} minutes. Wait for it or end it; starting again then resumes."
    )


def _read(note: Path) -> Holder | None:
    with contextlib.suppress(OSError, ValueError, ValidationError):
        return Holder.model_validate(json.loads(note.read_bytes()))
    return None
