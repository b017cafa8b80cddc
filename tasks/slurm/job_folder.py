"""The folder of a job: its script, environment file, log, exit receipt and job id. Each attempt has its own."""

import os
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

from tasks.contracts.errors import SettingsError
from tasks.io.files import write_bytes

ENVIRONMENT_FILE = "environment"
LOG_FILE = "job.log"
RECEIPT_FILE = "receipt.json"
SCRIPT_FILE = "job.sh"
_JOB_ID_FILE = "job-id"


def new_folder(log_dir: str, flow_run_id: UUID) -> Path:
    """Create the folder of the run's next attempt. Raises SettingsError if ``log_dir`` is not writable."""
    parent = _parent(log_dir, flow_run_id)
    try:
        parent.mkdir(parents=True, exist_ok=True)
        attempt = len(attempts_of(parent)) + 1
        while True:
            try:
                (parent / str(attempt)).mkdir(mode=0o700)
                return parent / str(attempt)
            except FileExistsError:
                attempt += 1
    except OSError as error:
        raise SettingsError(
            f"log_dir {log_dir}: cannot make {parent}: {error.strerror}; name a shared folder that you can write to"
        ) from None


def newest_folder(log_dir: str, flow_run_id: UUID) -> Path | None:
    """Return the folder of the run's last attempt, or None."""
    attempts = attempts_of(_parent(log_dir, flow_run_id))
    return attempts[-1] if attempts else None


def attempts_of(parent: Path) -> list[Path]:
    """Return the folders of a run's attempts, oldest first."""
    if not parent.is_dir():
        return []
    return sorted((path for path in parent.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def tag_of(folder: Path) -> str:
    """Return the tag of an attempt for the job's comment: ``prefect:<flow run>:<attempt>``."""
    return f"prefect:{folder.parent.name}:{folder.name}"


def job_in_queue(folder: Path, jobs: Mapping[Path, int]) -> int | None:
    """Return the id of an attempt's newest job in ``jobs`` (ids by script), or None.

    Compares only the end of the script's path, since the log directory may have several paths.
    """
    return max((job for script, job in jobs.items() if executes(script, folder)), default=None)


def executes(script: Path, folder: Path) -> bool:
    """Return whether ``script`` is the script in the folder of an attempt."""
    return script.parts[-3:] == (folder / SCRIPT_FILE).parts[-3:]


def note_job_id(folder: Path, job_id: int) -> None:
    """Write the job id of an attempt to its folder. Call it directly after the submission, before anything can fail."""
    write_bytes(folder / _JOB_ID_FILE, f"{job_id}\n".encode())


def noted_job_id(folder: Path) -> int | None:
    """Return the job id of an attempt, or None if it was not written."""
    try:
        return int((folder / _JOB_ID_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def log_tail(folder: Path, lines: int = 100, most_bytes: int = 50_000) -> str:
    """Return the last lines of the job's log, or an empty text if it cannot be read."""
    try:
        with (folder / LOG_FILE).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most_bytes))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _parent(log_dir: str, flow_run_id: UUID) -> Path:
    return Path(log_dir).expanduser() / str(flow_run_id)
