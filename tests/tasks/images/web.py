"""A small web server on the loopback interface: good pictures, and the faults of real servers."""

import io
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image


def picture(number: int) -> bytes:
    """Return a JPEG with structure everywhere (so that blurring shows), 128x96 for numbers above 30, else 64x48."""
    block = 8 if number > 30 else 4
    noise = np.random.default_rng(number).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise.repeat(block, 0).repeat(block, 1)).save(file, "JPEG", quality=95, subsampling=0)
    return file.getvalue()


class Handler(BaseHTTPRequestHandler):
    """``/ok/N`` a picture, ``/missing/N`` a 404, ``/html/N`` a web page, and the faults below."""

    server: "Web"

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        self.server.agents.add(self.headers["User-Agent"])
        _, kind, number = self.path.split("/")
        kind = self.server.instead.get(kind, kind)
        fault = getattr(self, kind, None)
        if fault:
            fault(int(number))
        else:
            self.send(b"<html>not here</html>" if kind == "html" else picture(int(number)))

    def missing(self, _: int) -> None:
        """Send a 404."""
        self.send_error(404)

    def busy(self, _: int) -> None:
        """Send a 429 or a 503, alternately."""
        self.send_error(429 if self.server.requests.total() % 2 else 503)

    def slow(self, number: int) -> None:
        """Send a picture after a delay."""
        time.sleep(self.server.delay)
        self.send(picture(number))

    def drip(self, number: int) -> None:
        """Send a picture byte by byte: no single socket operation takes long."""
        self.head(len(picture(number)))
        for byte in picture(number):
            self.wfile.write(bytes([byte]))
            self.server.stopping.wait(0.2)
            if self.server.stopping.is_set():
                return

    def hang(self, _: int) -> None:
        """Send nothing."""
        self.server.stopping.wait(300)

    def reset(self, _: int) -> None:
        """Reset the connection (closing with a linger time of zero sends RST instead of FIN)."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def loop(self, number: int) -> None:
        """Redirect to the same address."""
        self.send_response(302)
        self.send_header("Location", f"/loop/{number}")
        self.end_headers()

    def huge(self, _: int) -> None:
        """Send more bytes than a picture has, with a Content-Length."""
        self.head(self.server.huge_megabytes * 1_000_000)
        self.wfile.write(bytes(self.server.huge_megabytes * 1_000_000))

    def endless(self, _: int) -> None:
        """Send as many bytes without a Content-Length."""
        self.head(None)
        self.wfile.write(bytes(self.server.huge_megabytes * 1_000_000))

    def optout(self, number: int) -> None:
        """Send a picture with an opt-out header."""
        self.send(picture(number), ("X-Robots-Tag", "noai"))

    def send(self, body: bytes, *headers: tuple[str, str]) -> None:
        """Send a complete answer."""
        self.head(len(body), *headers)
        self.wfile.write(body)

    def head(self, length: int | None, *headers: tuple[str, str]) -> None:
        """Send status and headers."""
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Log nothing."""

    def log_error(self, *args: object) -> None:
        """Log nothing."""


class Web(ThreadingHTTPServer):
    """The server; counts requests by path. ``delay``: delay of a slow picture in seconds.

    ``instead`` replaces the answer of a kind of URL.
    """

    daemon_threads = True

    def __init__(self, delay: float = 0.2) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: Counter[str] = Counter()
        self.agents: set[str | None] = set()
        self.instead: dict[str, str] = {}
        self.stopping = threading.Event()
        self.delay = delay
        self.huge_megabytes = 2

    def url(self, kind: str, number: int) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{kind}/{number}"

    def handle_error(self, *args: object) -> None:
        """Ignore errors: a killed client is expected."""


@contextmanager
def serve() -> Iterator[Web]:
    """Run a server while the block runs."""
    web = Web()
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield web
    finally:
        web.stopping.set()
        web.shutdown()
        thread.join()
        web.server_close()
