"""Startup code of every Python process in a downloader environment: response limits, user agent, no orphans.

The package is copied into the environment next to a .pth file that imports it. (A sitecustomize.py would not run where
the system's Python has its own, as on Debian and Ubuntu: the standard library comes first on the path.) It replaces
functions that img2dataset calls; img2dataset and DataComp's script stay unmodified. Without VARIABLE it does nothing.

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
"""Environment variable, JSON: ``parent`` (process id), ``seconds`` and ``bytes`` per response,
``user_agent_token``, ``allow_private_hosts``."""
CHECK_SECONDS = 0.5
OPT_OUT_DIRECTIVES = {"noai", "noimageai", "noindex", "noimageindex"}
"""Directives of X-Robots-Tag that img2dataset treats as an opt-out by default."""


def exit_with_parent(parent: int) -> None:
    """Wait until ``parent`` is no longer the parent process, then exit this process at once.

    Linux offers PR_SET_PDEATHSIG for this, but it treats the thread that started a process as its parent: idle workers
    that hold a lock would be killed when the pool's own thread ends, and the pool would hang.
    """
    while os.getppid() == parent:
        time.sleep(CHECK_SECONDS)
    os._exit(1)


def limit_responses(seconds: float, most_bytes: int, token: str | None, allow_private: bool) -> None:
    """Replace ``urlopen`` so that it rejects responses that are too slow, too large or from a private address.

    The deadline covers lookups, connects, redirects, headers and body. img2dataset's own timeout applies to each socket
    operation, so a server that sends a byte at a time never reaches it.
    """
    allowance = Allowance()
    read_socket = socket.SocketIO.readinto
    # Created once per TLS context: reading the trusted certificates takes milliseconds.
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
            add_token(request, token)
        with allowance.remember_refusal(request):
            response = opener(context).open(request, data, timeout)
        try:
            check_headers(response.headers, most_bytes, token)
        except OSError:
            response.close()
            raise
        return response

    cast(Any, socket.SocketIO).readinto = readinto
    cast(Any, urllib.request).urlopen = urlopen


def check_headers(headers: Any, most_bytes: int, token: str | None) -> None:
    """Raise OSError if the headers declare too many bytes or forbid the use of the image."""
    length = headers.get("Content-Length", "")
    if length.isdigit() and int(length) > most_bytes:
        raise OSError("answer is too large")
    if token and opts_out(headers, token):
        raise PermissionError("Use of image disallowed by X-Robots-Tag directive")


def add_token(request: Any, token: str) -> None:
    """Add ``token`` to the user agent, in img2dataset's format."""
    agent = request.get_header("User-agent", "")
    request.add_header("User-Agent", f"{agent} (compatible; {token}; +https://github.com/rom1504/img2dataset)")


def opts_out(headers: Any, token: str) -> bool:
    """Return whether an X-Robots-Tag addresses ``token`` and forbids the use of the image."""
    for value in headers.get_all("X-Robots-Tag", []):
        name, colon, directives = value.partition(":")
        present = {directive.strip().lower() for directive in directives.split(",")}
        if colon and name.strip().lower() == token.lower() and present & OPT_OUT_DIRECTIVES:
            return True
    return False


def start(options: dict[str, Any]) -> None:
    """Set up this process, and make it the ``parent`` of the processes that it starts."""
    parent = options["parent"]
    os.environ[VARIABLE] = json.dumps(dict(options, parent=os.getpid()))
    threading.Thread(target=exit_with_parent, args=(parent,), daemon=True).start()
    limit_responses(options["seconds"], options["bytes"], options["user_agent_token"], options["allow_private_hosts"])


if VARIABLE in os.environ:
    start(json.loads(os.environ[VARIABLE]))
