"""A small web on the loopback interface: good pictures and what the real web answers instead."""

import io
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
    """``/ok/N`` a picture, ``/slow/N`` the same after a while, ``/missing/N`` a 404, ``/html/N`` a web page."""

    server: "Web"

    def do_GET(self) -> None:
        self.server.requests[self.path] += 1
        _, kind, number = self.path.split("/")
        if kind == "missing":
            self.send_error(404)
            return
        if kind == "slow":
            time.sleep(self.server.delay)
        body = b"<html>not here</html>" if kind == "html" else picture(int(number))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Be quiet."""

    def log_error(self, *args: object) -> None:
        """Be quiet."""


class Web(ThreadingHTTPServer):
    """The server; counts requests by path. ``delay``: seconds that a slow picture takes."""

    daemon_threads = True

    def __init__(self, delay: float = 0.2) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: Counter[str] = Counter()
        self.delay = delay

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
        web.shutdown()
        thread.join()
        web.server_close()
