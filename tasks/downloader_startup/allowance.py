"""Limits of one response: time, bytes, and a block on retries of private addresses."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any


class PrivateAddressError(Exception):
    """A connection blocked because of its address. It is not an OSError, so urllib passes it on unchanged."""

    def __init__(self) -> None:
        super().__init__("private_address")


class Allowance(threading.local):
    """Remaining time and bytes of the response that this thread waits for."""

    end: float | None = None
    timeout = 10.0
    bytes = 0
    refused: str | None = None
    """URL whose last attempt hit a private address: img2dataset retries it at once, which must fail too."""

    def total_left(self) -> float:
        """Return the seconds until the deadline. Raises TimeoutError if the deadline has passed."""
        left = (self.end or 0.0) - time.monotonic()
        if left <= 0:
            raise TimeoutError("answer took too long in all")
        return left

    def time_left(self) -> float:
        """Return the seconds that the next connect or read may take. Raises TimeoutError if the deadline has passed."""
        return min(self.timeout, self.total_left())

    @contextlib.contextmanager
    def remember_refusal(self, request: Any) -> Iterator[None]:
        """Raise PrivateAddressError at once if this thread's last request had the same URL and raised it."""
        url = request if isinstance(request, str) else str(request.full_url)
        if self.refused == url:
            raise PrivateAddressError
        self.refused = None
        try:
            yield
        except PrivateAddressError:
            self.refused = url
            raise

    def spend(self, count: int) -> None:
        """Subtract received bytes. Raises OSError if the limit is exceeded."""
        self.bytes -= count
        if self.bytes < 0:
            raise OSError("answer is too large")
