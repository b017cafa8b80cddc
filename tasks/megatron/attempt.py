"""Record of a running launcher until its job id is known, so that a job is neither lost nor submitted twice.

A launcher outlives a killed flow and still submits its job. It therefore inherits a locked file: as long as the file
is locked, the launcher is running, whichever process started it. ``launching.json`` records what it launches.
"""

import fcntl
import os
import time
import uuid
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.io.files import write_json
from tasks.megatron.job_id import Notes, said

MARK = "launching.json"

_LOOK_SECONDS = 0.2


class Attempt(BaseModel):
    """A launcher: what it launches (``identity``, see launch.py), its lock, and NeMo-Run's notes at its start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: str
    lock: Path
    notes_path: Path
    notes_size: int

    def new_jobs(self) -> list[int]:
        """Return the jobs that NeMo-Run has recorded since the start."""
        return Notes(self.notes_path, self.notes_size).new_jobs()


def begin(folder: Path, identity: str, notes: Notes) -> tuple[Attempt, int]:
    """Record that a launcher is about to start; return the record and the locked file descriptor for it to inherit."""
    # One file per attempt: an earlier launcher may still hold its lock long after its job has ended.
    lock = folder / f".launcher-{uuid.uuid4().hex}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    _try_lock(descriptor)
    attempt = Attempt(identity=identity, lock=lock, notes_path=notes.path, notes_size=notes.size)
    write_json(folder / MARK, attempt.model_dump(mode="json"))
    return attempt, descriptor


def unfinished(folder: Path) -> Attempt | None:
    """Return the recorded launcher whose outcome is still unknown, or None."""
    try:
        return Attempt.model_validate_json((folder / MARK).read_bytes())
    except (OSError, ValidationError):
        return None


def finish(folder: Path) -> None:
    """Remove the launcher's record and lock: its job is recorded, or it submitted none."""
    if attempt := unfinished(folder):
        (folder / MARK).unlink(missing_ok=True)
        attempt.lock.unlink(missing_ok=True)


def outcome(attempt: Attempt, log: Path, wait: bool = True) -> int | None:
    """Return the job that a launcher submitted, or None if unknown.

    With ``wait``, wait until the job id is known or the launcher has exited.
    """
    while True:
        running = wait and _at_work(attempt)
        if job_id := said(log):
            return job_id
        if not running:
            break
        time.sleep(_LOOK_SECONDS)
    noted = attempt.new_jobs()
    return noted[0] if len(noted) == 1 else None


def _at_work(attempt: Attempt) -> bool:
    try:
        descriptor = os.open(attempt.lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock the file; return False if another process holds it. A file system without locks counts as free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
