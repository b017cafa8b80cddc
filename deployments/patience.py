"""Requests to a Prefect server that may be down or busy for a while."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from tasks.contracts.errors import PipelineError

PATIENCE_SECONDS = 300.0
"""How long a server may be down or busy before a request is given up."""

_LONGEST_DELAY = 15.0
_PASSING_STATUS = frozenset({429, 500, 502, 503, 504})
Result = TypeVar("Result")
Report = Callable[[str], None]


def ask_with_patience(
    request: Callable[[SyncPrefectClient], Result], report: Report, seconds: float = PATIENCE_SECONDS
) -> Result:
    """Return what ``request`` returns; repeat it while the server is down or busy, and report why once.

    The request must be safe to repeat. Raises PipelineError after ``seconds``, or when the server rejects it.
    """
    deadline, delay, reported = time.monotonic() + seconds, 0.5, ""
    while True:
        try:
            return _ask_once(request)
        except Exception as error:
            if isinstance(error, PipelineError):
                raise
            trouble = passing_trouble(error)
            if trouble is None:
                raise _rejection(error) from error
            if time.monotonic() + delay > deadline:
                raise _no_answer(trouble, seconds) from None
        if trouble != reported:
            report(f"The Prefect server at {PREFECT_API_URL.value()} {trouble}; trying again for {seconds:.0f} s.")
            reported = trouble
        time.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY)


def print_line(line: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _ask_once(request: Callable[[SyncPrefectClient], Result]) -> Result:
    # Prefect's own retries are silent for a minute, and only start after the first connection.
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
        check_server_version(client)
        return request(client)


def check_server_version(client: SyncPrefectClient) -> None:
    """Raise PipelineError if the server is of another major version; Prefect only warns of an older minor one."""
    try:
        client.raise_for_api_version_mismatch_once()
    except RuntimeError as error:
        if not str(error).startswith("Found incompatible versions"):
            raise
        words = " ".join(str(error).split())
        raise PipelineError(
            f"the Prefect server at {client.api_url} cannot be used: {words} Use a server of Prefect 3.8 or newer"
        ) from None


def passing_trouble(error: BaseException) -> str | None:
    """Return why the server could not answer now; None for an error that repeating does not cure."""
    if isinstance(error, httpx.TransportError):
        return f"does not answer ({str(error) or type(error).__name__})"
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return f"answers {status} ({error.response.reason_phrase})" if status in _PASSING_STATUS else None
    # The client's check of the server's version wraps what went wrong.
    return passing_trouble(error.__cause__) if isinstance(error, RuntimeError) and error.__cause__ else None


def _no_answer(trouble: str, seconds: float) -> PipelineError:
    return PipelineError(
        f"the Prefect server at {PREFECT_API_URL.value()} {trouble}, for {seconds:.0f} s now; start it, or correct "
        "PREFECT_API_URL, and run the same command again: what is done is not done twice"
    )


def _rejection(error: Exception) -> Exception:
    """Return a sentence for an answer that is final; the error itself if it is not the server's."""
    url = PREFECT_API_URL.value()
    if isinstance(error, httpx.HTTPStatusError):
        return PipelineError(f"the Prefect server at {url} {_status_in_words(error)}")
    if isinstance(error, RuntimeError) and str(error).startswith("Failed to reach API"):
        return PipelineError(f"{url} is not the API of a Prefect server; give an address that ends with /api")
    return error


def _status_in_words(error: httpx.HTTPStatusError) -> str:
    status = error.response.status_code
    if status in {401, 403}:
        return f"answers {status}: it wants credentials; set PREFECT_API_AUTH_STRING, or PREFECT_API_KEY for Cloud"
    url = str(PREFECT_API_URL.value())
    hint = "" if url.rstrip("/").endswith("/api") else "; give an address that ends with /api"
    return f"rejects {error.request.method} {error.request.url.path} with {status}: {error.response.text[:500]}{hint}"
