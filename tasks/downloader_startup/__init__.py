"""Runs first in every Python process of a downloader environment: limits on answers, the user agent, no orphans.

The package is copied into the environment beside a .pth file that imports it. (A sitecustomize.py of ours would never
run where the system's Python has one, as on Debian and Ubuntu: the standard library is searched first.) It changes what
img2dataset calls, so img2dataset and DataComp's script stay as they are. Without VARIABLE it does nothing.

It uses the standard library only, and must run on every Python of a downloader environment (3.10 and later).
"""

import functools
import json
import os
import socket
import threading
import time
import urllib.request
from typing import Any, cast

from .allowance import Allowance
from .connections import make_opener

VARIABLE = "DATACOMP_ENERGON_DOWNLOADER"
"""Environment variable, JSON: ``parent`` (process id), ``seconds`` and ``bytes`` of an answer,
``user_agent_token``, ``allow_private_hosts``."""
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


def limit_answers(seconds: float, most_bytes: int, token: str | None, allow_private: bool) -> None:
    """Let ``urlopen`` give up on an answer that takes too long, is too large, or comes from a private address.

    The deadline covers lookups, connects, redirects, headers and body. The timeout that img2dataset gives holds for
    each socket operation: a server that drips never meets it.
    """
    allowance = Allowance()
    read_socket = socket.SocketIO.readinto
    # Made once per TLS context: reading the trusted certificates takes milliseconds.
    opener = functools.cache(functools.partial(make_opener, allowance, allow_private))

    def readinto(self: Any, buffer: Any) -> int | None:
        if allowance.end is None:
            return read_socket(self, buffer)
        self._sock.settimeout(allowance.time_left())
        count = read_socket(self, buffer)
        allowance.spend(count or 0)
        return count

    def urlopen(request: Any, data: Any = None, timeout: float = 10, *, context: Any = None) -> Any:
        allowance.end, allowance.timeout, allowance.bytes = time.monotonic() + seconds, timeout, most_bytes
        if token:
            introduce(request, token)
        with allowance.remember_refusal(request):
            answer = opener(context).open(request, data, timeout)
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
    limit_answers(given["seconds"], given["bytes"], given["user_agent_token"], given["allow_private_hosts"])


if VARIABLE in os.environ:
    start(json.loads(os.environ[VARIABLE]))
