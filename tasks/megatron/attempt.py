"""A launcher at work: what is known of it until it has named its job, so that no job is forgotten or doubled.

A launcher outlives a flow that is killed, and submits all the same. So it inherits a locked file: as long as that is
locked, the launcher is at work, whoever started it. ``launching.json`` says what it launches.
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
    """A launcher: what it launches (``identity``, see launch.py), its lock, and NeMo-Run's notes as it began."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    identity: str
    lock: Path
    notes_path: Path
    notes_size: int

    def new_jobs(self) -> list[int]:
        """Jobs that NeMo-Run has noted since."""
        return Notes(self.notes_path, self.notes_size).new_jobs()


def begin(folder: Path, identity: str, notes: Notes) -> tuple[Attempt, int]:
    """Note that a launcher is about to start; gives the descriptor of the locked file that it shall inherit."""
    # One file an attempt: a launcher whose job has long ended may still hold its own.
    lock = folder / f".launcher-{uuid.uuid4().hex}.lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    _try_lock(descriptor)
    attempt = Attempt(identity=identity, lock=lock, notes_path=notes.path, notes_size=notes.size)
    write_json(folder / MARK, attempt.model_dump(mode="json"))
    return attempt, descriptor


def unfinished(folder: Path) -> Attempt | None:
    """The launcher that nobody has heard to the end; None if there is none."""
    try:
        return Attempt.model_validate_json((folder / MARK).read_bytes())
    except (OSError, ValidationError):
        return None


def finish(folder: Path) -> None:
    """The launcher's job is known, or it has none."""
    if attempt := unfinished(folder):
        (folder / MARK).unlink(missing_ok=True)
        attempt.lock.unlink(missing_ok=True)


def outcome(attempt: Attempt, log: Path, wait: bool = True) -> int | None:
    """The job that a launcher submitted, once that is known (or as far as it is); None if it has named none."""
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
    """Lock the file, unless another process has it; a file system without locks counts as free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
