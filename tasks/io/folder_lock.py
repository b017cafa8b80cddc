"""A lock for one writer per folder, with a note that names the holder.

Guarantees:

- On one host the operating system's lock decides. It ends with its holder.
- Over NFS (version 4, or 3 with its lock service) the server keeps the lock for all hosts. The lock of a crashed host
  ends with its lease (about 90 s) or with that host's next start.
- Where hosts do not see each other's locks (NFS with ``nolock``, Lustre with ``localflock`` or none), the holder's note
  decides. A live holder touches its note; a note that stays untouched while we watch it is stale. Two holders that
  start at the same moment can both get in. They write complete files with equal bytes, so that costs time, not data.
"""

import contextlib
import getpass
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.contracts.errors import BusyError, PipelineError
from tasks.io.failure_note import failure_noted
from tasks.io.files import write_json
from tasks.io.locks import exclusive

SILENT_SECONDS = 90.0
"""A holder on another host that does not touch its note for this long, while we watch, counts as dead."""
BEAT_SECONDS = 15.0

LOCK, NOTE = ".lock", ".holder.json"

logger = logging.getLogger(__name__)


class Holder(BaseModel):
    """The holder of a folder: process, user, host, batch job and flow run if any, start time (seconds since 1970)."""

    model_config = ConfigDict(frozen=True)

    what: str
    user: str
    host: str
    pid: int
    job: str | None = None
    run: str | None = None
    since: float

    def __str__(self) -> str:
        job = f", job {self.job}" if self.job else ""
        run = f", flow run {self.run!r}" if self.run else ""
        began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.since))
        minutes = max(0.0, time.time() - self.since) / 60
        return f"process {self.pid} of {self.user} on {self.host}{job}{run}, since {began} ({minutes:.0f} minutes)"


@contextlib.contextmanager
def one_writer(
    folder: Path,
    what: str,
    place: Path | None = None,
    *,
    run: str | None = None,
    warn: Callable[[str], None] = logger.warning,
    patience: float = 0.0,
) -> Iterator[None]:
    """Keep a second ``what`` (download, conversion, …) out of ``folder`` while the block runs.

    ``place`` is the path in the message (by default ``folder``), ``run`` is the flow run's name, and ``patience`` is
    how many seconds to wait for another holder to end. Takes over the lock of a dead holder and reports it with
    ``warn``. If the block fails, writes the reason to the folder. Raises BusyError with the holder's name.
    """
    note = folder / NOTE
    with contextlib.ExitStack() as stack:
        _lock(stack, folder, f"Another {what} is at work in {place or folder}", patience)
        _refuse_linked_folders(folder)
        other = _read(note)
        if other and _lives(other, note):
            raise BusyError(f"Another {what} is at work in {place or folder}: {other}. {_WAIT}")
        if other:
            warn(f"taking over {place or folder} from a {other.what} that died: {other}")
        write_json(note, _myself(what, run).model_dump())
        stack.callback(note.unlink, missing_ok=True)
        stack.enter_context(_heartbeat(note))
        stack.enter_context(failure_noted(folder, what))
        yield


def holder_of(folder: Path) -> tuple[Holder, bool] | None:
    """Return the holder in the note of ``folder`` and whether it seems alive, or None. Does not try the lock."""
    note = folder / NOTE
    holder, touched = _read(note), _touched(note)
    if holder is None or touched is None:
        return None
    if holder.host == socket.gethostname() and not Path(f"/proc/{holder.pid}").exists():
        return holder, False
    # A host with a wrong clock may write a time in the future: the note must not count as alive until then.
    return holder, abs(time.time() - touched / 1e9) < SILENT_SECONDS


def _refuse_linked_folders(folder: Path) -> None:
    """Raise PipelineError if a subfolder is a link: files written into it would land somewhere else."""
    linked = next((path for path in folder.iterdir() if path.is_symlink() and path.is_dir()), None)
    if linked is not None:
        raise PipelineError(
            f"{linked} is a link to the folder {linked.resolve()}; work in progress is written only into {folder} "
            "itself. Remove the link (its content is made again), and rerun"
        )


_WAIT = "Wait for it or end it; starting again then goes on."


def _lock(stack: contextlib.ExitStack, folder: Path, busy: str, patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            stack.enter_context(exclusive(folder / LOCK, wait=False))
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                raise BusyError(_busy(folder, busy)) from None
        time.sleep(0.2)


def _busy(folder: Path, busy: str) -> str:
    holder = _read(folder / NOTE)
    if holder is None:
        return f"{busy}. {_WAIT}"
    if holder.host == socket.gethostname():
        return f"{busy}: {holder}. {_WAIT}"
    return f"{busy}: {holder}. {_WAIT} If that host is gone for good, delete {folder / LOCK} and start again."


def _myself(what: str, run: str | None) -> Holder:
    job = next((os.environ[name] for name in ("SLURM_JOB_ID", "PBS_JOBID") if name in os.environ), None)
    return Holder(
        what=what, user=_user(), host=socket.gethostname(), pid=os.getpid(), job=job, run=run or None, since=time.time()
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have no name
        return str(os.getuid())


@contextlib.contextmanager
def _heartbeat(note: Path) -> Iterator[None]:
    """Touch the note every BEAT_SECONDS while the block runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError):
                os.utime(note)

    thread = threading.Thread(target=beat, name="holder's heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _lives(other: Holder, note: Path) -> bool:
    """Return whether the holder is alive. We hold the lock, so on this host it is dead; on another, watch its note."""
    if other.host == socket.gethostname():
        return False
    seen, end = _touched(note), time.monotonic() + SILENT_SECONDS
    while time.monotonic() < end:
        time.sleep(min(1.0, SILENT_SECONDS / 10))
        if _touched(note) != seen:
            return note.exists()
    return False


def _touched(note: Path) -> int | None:
    """Return the note's mtime in nanoseconds, or None. Open the file, since NFS asks the server again only then."""
    try:
        with note.open() as file:
            return os.fstat(file.fileno()).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def _read(note: Path) -> Holder | None:
    with contextlib.suppress(OSError, ValueError, ValidationError):
        return Holder.model_validate(json.loads(note.read_bytes()))
    return None
