"""A small Hugging Face hub on the loopback interface, from which quickstart and the tests fetch metadata."""

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

PAGE = b"<!DOCTYPE html><html><title>Sign in</title><p>Please sign in to use this network.</html>"


@dataclass(frozen=True)
class Fault:
    """One faulty response.

    ``status``: a request gets this HTTP status, with the headers given. ``portal``: it gets a web page, as behind
    a sign-in page. With ``method`` GET, a HEAD succeeds. The other kinds spoil the body of a GET; a HEAD always
    succeeds: ``html`` sends a web page instead of the file, ``cut`` half of the file and then closes the connection,
    ``flip`` changes one bit, ``stall`` sends nothing until the hub closes.
    """

    kind: Literal["status", "portal", "html", "cut", "flip", "stall"]
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    method: Literal["any", "GET"] = "any"

    def applies_to(self, method: str) -> bool:
        """Return whether the fault applies to a request of this method."""
        return method == "GET" or (self.method == "any" and self.kind in ("status", "portal"))


def busy(status: int, retry_after: str | None = None, method: Literal["any", "GET"] = "any") -> Fault:
    """Return the fault of a busy hub: status 429 or 503, ``retry_after`` in seconds or as an HTTP date."""
    return Fault("status", status, {} if retry_after is None else {"Retry-After": retry_after}, method)


@dataclass
class Hub:
    """A running hub: its URL, and the requests that it received ("GET name.parquet")."""

    folder: Path
    repo_id: str
    revision: str
    faults: dict[str, list[Fault]]
    url: str = ""
    requests: list[str] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self, method: str, name: str) -> Fault | None:
        """Record a request, and pop the next fault of the file if it applies to this method."""
        with self._lock:
            self.requests.append(f"{method} {name}")
            pending = self.faults.get(name, [])
            if pending and pending[0].applies_to(method):
                return pending.pop(0)
            return None


@contextlib.contextmanager
def serve_hub(
    folder: Path,
    repo_id: str,
    revision: str,
    port: int = 0,
    faults: Mapping[str, Sequence[Fault]] | None = None,
) -> Iterator[Hub]:
    """Serve the files of ``folder`` as the dataset ``repo_id`` at ``revision``, until the block ends.

    ``port`` 0 selects a free one; set HF_ENDPOINT to the hub's ``url``. ``faults`` lists the faults of each file:
    each applies to one request. Raises OSError if the port is taken.
    """
    hub = Hub(folder, repo_id, revision, {name: list(pending) for name, pending in (faults or {}).items()})
    server = ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, hub))
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Serves ``/datasets/<repo>/resolve/<revision>/<file>`` with the headers that huggingface_hub reads."""

    protocol_version = "HTTP/1.1"

    def __init__(self, hub: Hub, *args: object) -> None:
        self.hub = hub
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Disable the request log."""

    def _answer(self) -> None:
        asked = re.fullmatch(r"/datasets/(.+)/resolve/([^/]+)/([^/?]+)", self.path)
        if not asked or asked[1] != self.hub.repo_id:
            return self._error(HTTPStatus.NOT_FOUND, {"X-Error-Code": "RepoNotFound"})
        if asked[2] != self.hub.revision:
            return self._error(HTTPStatus.NOT_FOUND, {"X-Error-Code": "RevisionNotFound"})
        fault = self.hub.next_fault(self.command, asked[3])
        if fault and fault.kind == "status":
            return self._error(fault.status, fault.headers)
        path = self.hub.folder / asked[3]
        if not path.is_file():
            return self._error(HTTPStatus.NOT_FOUND, {"X-Error-Code": "EntryNotFound"})
        return self._file(path, fault.kind if fault else None)

    def _error(self, status: int, headers: Mapping[str, str]) -> None:
        self._send(status, {**headers, "Content-Length": "0"}, b"")

    def _file(self, path: Path, fault: str | None) -> None:
        if fault == "stall":
            self.hub.closing.wait()
            self.close_connection = True
            return
        if fault == "portal":
            return self._send(HTTPStatus.OK, {"Content-Type": "text/html", "Content-Length": str(len(PAGE))}, PAGE)
        data = PAGE if fault == "html" else _flip_bit(path.read_bytes(), fault == "flip")
        self._send_part(data, self._headers(path, data), cut=fault == "cut")
        return None

    def _headers(self, path: Path, data: bytes) -> dict[str, str]:
        stat = path.stat()
        return {
            "ETag": f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"',
            "X-Repo-Commit": self.hub.revision,
            "X-Linked-Size": str(len(data)),
            "Accept-Ranges": "bytes",
            "Content-Type": "application/octet-stream",
        }

    def _send_part(self, data: bytes, headers: dict[str, str], cut: bool) -> None:
        part, status = data, HTTPStatus.OK
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if wanted and int(wanted[1]) < len(data):
            part, status = data[int(wanted[1]) :], HTTPStatus.PARTIAL_CONTENT
            headers["Content-Range"] = f"bytes {wanted[1]}-{len(data) - 1}/{len(data)}"
        self._send(status, {**headers, "Content-Length": str(len(part))}, part[: len(part) // 2] if cut else part)
        self.close_connection = self.close_connection or cut

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        # A client may close early: it was killed, or needs only the headers.
        with contextlib.suppress(ConnectionError):
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)


def _flip_bit(data: bytes, flip: bool) -> bytes:
    if not flip:
        return data
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
