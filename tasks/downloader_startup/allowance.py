"""What one answer of the web may take: time, bytes, and no second attempt at a private address."""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any


class PrivateAddressError(Exception):
    """A connection that was refused because of its address; no OSError, so that urllib does not reword it."""

    def __init__(self) -> None:
        super().__init__("private_address")


class Allowance(threading.local):
    """What is left of the time and the bytes of the answer that this thread is waiting for."""

    end: float | None = None
    timeout = 10.0
    bytes = 0
    refused: str | None = None
    """URL whose last attempt met a private address: img2dataset tries it again at once, and must not get further."""

    def total_left(self) -> float:
        """Return the seconds until the deadline. Raises TimeoutError if there are none."""
        left = (self.end or 0.0) - time.monotonic()
        if left <= 0:
            raise TimeoutError("answer took too long in all")
        return left

    def time_left(self) -> float:
        """Return the seconds that the next connect or read may take. Raises TimeoutError if there are none."""
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
        """Note bytes that came. Raises OSError if they are too many."""
        self.bytes -= count
        if self.bytes < 0:
            raise OSError("answer is too large")
