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
"""How long a request is repeated while the server is down or busy."""

_MAX_DELAY = 15.0
_RETRIED_STATUS = frozenset({429, 500, 502, 503, 504})
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
            failure = temporary_failure(error)
            if failure is None:
                raise _final_error(error) from error
            if time.monotonic() + delay > deadline:
                raise _timeout_error(failure, seconds) from None
        if failure != reported:
            report(f"The Prefect server at {PREFECT_API_URL.value()} {failure}; trying again for {seconds:.0f} s.")
            reported = failure
        time.sleep(delay)
        delay = min(delay * 2, _MAX_DELAY)


def print_line(line: str) -> None:
    """Write a line to standard output and flush it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _ask_once(request: Callable[[SyncPrefectClient], Result]) -> Result:
    # Prefect's own retries are silent for a minute, and only start after the first connection.
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}), get_client(sync_client=True) as client:
        check_server_version(client)
        return request(client)


def check_server_version(client: SyncPrefectClient) -> None:
    """Raise PipelineError if the server has another major version; for an older minor version Prefect only warns."""
    try:
        client.raise_for_api_version_mismatch_once()
    except RuntimeError as error:
        if not str(error).startswith("Found incompatible versions"):
            raise
        words = " ".join(str(error).split())
        raise PipelineError(
            f"the Prefect server at {client.api_url} cannot be used: {words} Use a server of Prefect 3.8 or newer"
        ) from None


def temporary_failure(error: BaseException) -> str | None:
    """Return why the server could not answer now, or None if repeating the request does not help."""
    if isinstance(error, httpx.TransportError):
        return f"does not answer ({str(error) or type(error).__name__})"
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return f"answers {status} ({error.response.reason_phrase})" if status in _RETRIED_STATUS else None
    # The client's version check wraps the original error in a RuntimeError.
    return temporary_failure(error.__cause__) if isinstance(error, RuntimeError) and error.__cause__ else None


def _timeout_error(failure: str, seconds: float) -> PipelineError:
    return PipelineError(
        f"the Prefect server at {PREFECT_API_URL.value()} {failure}, for {seconds:.0f} s now; start it, or correct "
        "PREFECT_API_URL, and run the same command again: what is done is not done twice"
    )


def _final_error(error: Exception) -> Exception:
    """Return a PipelineError for a final answer of the server, or ``error`` itself if the server did not send it."""
    url = PREFECT_API_URL.value()
    if isinstance(error, httpx.HTTPStatusError):
        return PipelineError(f"the Prefect server at {url} {_describe_status(error)}")
    if isinstance(error, RuntimeError) and str(error).startswith("Failed to reach API"):
        return PipelineError(f"{url} is not the API of a Prefect server; give an address that ends with /api")
    return error


def _describe_status(error: httpx.HTTPStatusError) -> str:
    status = error.response.status_code
    if status in {401, 403}:
        return f"answers {status}: it wants credentials; set PREFECT_API_AUTH_STRING, or PREFECT_API_KEY for Cloud"
    url = str(PREFECT_API_URL.value())
    hint = "" if url.rstrip("/").endswith("/api") else "; give an address that ends with /api"
    return f"rejects {error.request.method} {error.request.url.path} with {status}: {error.response.text[:500]}{hint}"
