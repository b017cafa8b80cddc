"""A small web on the loopback interface: good pictures and what the real web answers instead."""

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
    """A JPEG with structure everywhere (so that blurring shows), 128x96 for numbers above 30, else 64x48."""
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
        """A 404."""
        self.send_error(404)

    def busy(self, _: int) -> None:
        """A 429 and a 503 by turns."""
        self.send_error(429 if self.server.requests.total() % 2 else 503)

    def slow(self, number: int) -> None:
        """A picture after a while."""
        time.sleep(self.server.delay)
        self.send(picture(number))

    def drip(self, number: int) -> None:
        """A picture, a byte at a time: no socket operation ever takes long."""
        self.head(len(picture(number)))
        for byte in picture(number):
            self.wfile.write(bytes([byte]))
            self.server.stopping.wait(0.2)
            if self.server.stopping.is_set():
                return

    def hang(self, _: int) -> None:
        """Nothing."""
        self.server.stopping.wait(300)

    def reset(self, _: int) -> None:
        """The connection is reset (closing with a linger time of zero sends RST instead of FIN)."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def loop(self, number: int) -> None:
        """A redirect to the same address."""
        self.send_response(302)
        self.send_header("Location", f"/loop/{number}")
        self.end_headers()

    def huge(self, _: int) -> None:
        """More bytes than a picture has, announced."""
        self.head(self.server.huge_megabytes * 1_000_000)
        self.wfile.write(bytes(self.server.huge_megabytes * 1_000_000))

    def endless(self, _: int) -> None:
        """As many, without saying so."""
        self.head(None)
        self.wfile.write(bytes(self.server.huge_megabytes * 1_000_000))

    def optout(self, number: int) -> None:
        """A picture that must not be used."""
        self.send(picture(number), ("X-Robots-Tag", "noai"))

    def send(self, body: bytes, *headers: tuple[str, str]) -> None:
        """A whole answer."""
        self.head(len(body), *headers)
        self.wfile.write(body)

    def head(self, length: int | None, *headers: tuple[str, str]) -> None:
        """Status and headers."""
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Be quiet."""

    def log_error(self, *args: object) -> None:
        """Be quiet."""


class Web(ThreadingHTTPServer):
    """The server; counts requests by path. ``delay``: seconds that a slow picture takes.

    ``instead`` changes what a kind of URL answers.
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
        """A client that was killed is no news."""


@contextmanager
def serve() -> Iterator[Web]:
    """A running web."""
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
