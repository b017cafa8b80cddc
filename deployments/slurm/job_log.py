"""What a job's log says about a run that never reached the API."""

import re
from pathlib import Path

from tasks.slurm.job_folder import LOG_FILE, log_tail

# How Prefect's trace ends when no server answers the job, or one that is not the API.
_UNREACHABLE = re.compile(
    r"(?:httpx|httpcore)\.(?:ConnectError|ConnectTimeout|ReadError|ReadTimeout|RemoteProtocolError): ?(?P<why>.*)"
    r"|RuntimeError: Failed to reach API at (?P<address>.*)"
)
_LAST_LINES = 15
"""The cause stands at the end; a job that went on for long after it had another one."""


def unreachable_api(folder: Path, worker_url: str) -> str | None:
    """Return in a sentence that the job could not reach the API; None if its log names no such cause."""
    found = _UNREACHABLE.search(log_tail(folder, _LAST_LINES))
    if found is None:
        return None
    why = (found["why"] or found["address"] or "no answer").strip()
    return (
        f"the job could not reach the Prefect API ({why}); start the server on an address that the compute nodes "
        f"reach, and set it for the worker (the worker has PREFECT_API_URL={worker_url}). The trace is in "
        f"{folder / LOG_FILE}"
    )
