"""A check of the job's log for runs that never reached the API."""

import re
from pathlib import Path

from deployments.slurm.attempt import NOT_STARTED
from tasks.slurm.job_folder import LOG_FILE, log_tail

# Last lines of the log if the server does not answer, or is not a Prefect API.
_UNREACHABLE = re.compile(
    r"(?:httpx|httpcore)\.(?:ConnectError|ConnectTimeout|ReadError|ReadTimeout|RemoteProtocolError): ?(?P<why>.*)"
    r"|RuntimeError: Failed to reach API at (?P<address>.*)"
    rf"|{NOT_STARTED}: the Prefect server at \S+ does not answer \((?P<silence>.*?)\), for"
    rf"|{NOT_STARTED}: (?P<other>\S+ is not the API of a Prefect server)"
)
_LAST_LINES = 15
"""Number of lines to search. Earlier errors did not end the job, since it kept running."""


def unreachable_api(folder: Path, worker_url: str) -> str | None:
    """Return an error message if the job's log shows that it could not reach the API, else None."""
    found = _UNREACHABLE.search(log_tail(folder, _LAST_LINES))
    if found is None:
        return None
    why = (found["why"] or found["address"] or found["silence"] or found["other"] or "no answer").strip()
    return (
        f"the job could not reach the Prefect API ({why}); start the server on an address that the compute nodes "
        f"reach, and set it for the worker (the worker has PREFECT_API_URL={worker_url}). Its log is "
        f"{folder / LOG_FILE}"
    )
