"""Runs first in every Python process of a downloader environment: limits on answers, the user agent, no orphans.

It is copied into the environment beside a .pth file that imports it. (A sitecustomize.py of ours would never run where
the system's Python has one, as on Debian and Ubuntu: the standard library is searched first.) It changes what
img2dataset calls, so img2dataset and DataComp's script stay as they are. Without VARIABLE it does nothing.
"""

import json
import os
import socket
import threading
import time
import urllib.request
from typing import Any, cast

VARIABLE = "DATACOMP_ENERGON_DOWNLOADER"
"""Environment variable, JSON: ``parent`` (process id), ``seconds`` and ``bytes`` of an answer, ``user_agent_token``."""
LOOK_SECONDS = 0.5
REFUSING = {"noai", "noimageai", "noindex", "noimageindex"}
"""Directives of X-Robots-Tag that img2dataset takes for an opt-out, by default."""


def end_with(parent: int) -> None:
    """End this process at once when the process ``parent`` is not above it any more.

    Linux can do that by itself (PR_SET_PDEATHSIG), but takes the thread that started a process for its parent:
    it would kill idle workers when the pool's own thread ends, locks in their hands, and the pool would hang.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


class Allowance(threading.local):
    """What is left of the time and the bytes of the answer that this thread is waiting for."""

    end: float | None = None
    timeout = 10.0
    bytes = 0

    def time_left(self) -> float:
        """Seconds that the next read may take. Raises TimeoutError if there are none."""
        left = (self.end or 0.0) - time.monotonic()
        if left <= 0:
            raise TimeoutError("answer took too long in all")
        return min(self.timeout, left)

    def spend(self, count: int) -> None:
        """Note bytes that came. Raises OSError if they are too many."""
        self.bytes -= count
        if self.bytes < 0:
            raise OSError("answer is too large")


def limit_answers(seconds: float, most_bytes: int, token: str | None) -> None:
    """Let ``urlopen`` give up on an answer that takes too long or is too large, redirects and headers included.

    The timeout that img2dataset gives holds for each socket operation: a server that drips never meets it.
    """
    allowance = Allowance()
    read_socket, open_url = socket.SocketIO.readinto, cast(Any, urllib.request.urlopen)

    def readinto(self: Any, buffer: Any) -> int | None:
        if allowance.end is None:
            return read_socket(self, buffer)
        self._sock.settimeout(allowance.time_left())
        count = read_socket(self, buffer)
        allowance.spend(count or 0)
        return count

    def urlopen(request: Any, *args: Any, timeout: float = 10, **others: Any) -> Any:
        allowance.end, allowance.timeout, allowance.bytes = time.monotonic() + seconds, timeout, most_bytes
        if token:
            introduce(request, token)
        answer = open_url(request, *args, timeout=timeout, **others)
        try:
            refuse(answer.headers, most_bytes, token)
        except OSError:
            answer.close()
            raise
        return answer

    cast(Any, socket.SocketIO).readinto = readinto
    cast(Any, urllib.request).urlopen = urlopen


def refuse(headers: Any, most_bytes: int, token: str | None) -> None:
    """Raise OSError for an answer that announces too many bytes, or that must not be used."""
    length = headers.get("Content-Length", "")
    if length.isdigit() and int(length) > most_bytes:
        raise OSError("answer is too large")
    if token and opts_out(headers, token):
        raise PermissionError("Use of image disallowed by X-Robots-Tag directive")


def introduce(request: Any, token: str) -> None:
    """Add ``token`` to the user agent, in the words of img2dataset."""
    agent = request.get_header("User-agent", "")
    request.add_header("User-Agent", f"{agent} (compatible; {token}; +https://github.com/rom1504/img2dataset)")


def opts_out(headers: Any, token: str) -> bool:
    """Whether an X-Robots-Tag speaks to ``token`` and refuses."""
    for value in headers.get_all("X-Robots-Tag", []):
        name, colon, directives = value.partition(":")
        said = {directive.strip().lower() for directive in directives.split(",")}
        if colon and name.strip().lower() == token.lower() and said & REFUSING:
            return True
    return False


def start(given: dict[str, Any]) -> None:
    """Set up this process; ``parent`` becomes this one for the processes that it starts."""
    parent = given["parent"]
    os.environ[VARIABLE] = json.dumps(dict(given, parent=os.getpid()))
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    limit_answers(given["seconds"], given["bytes"], given["user_agent_token"])


if VARIABLE in os.environ:
    start(json.loads(os.environ[VARIABLE]))
