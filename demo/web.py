"""The demo's web: an HTTP server on the loopback interface that serves generated pictures, and faults."""

import argparse
import contextlib
import errno
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from demo.answers import Answer, answer
from tasks.contracts.errors import PipelineError

HOST = "127.0.0.1"
SLOW_SECONDS = 12.0
"""Delay of a slow response: longer than the quickstart's timeout."""
IDLE_SECONDS = 30
"""How long a client may stay silent."""


@contextlib.contextmanager
def serve_pictures(port: int = 0) -> Iterator[str]:
    """Serve the demo's web on ``port`` of 127.0.0.1 (0: a free one) and yield its base URL.

    Raises PipelineError if the port is in use.
    """
    with _listen(port) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="demo-web", daemon=True)
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


def _listen(port: int) -> "_Server":
    try:
        return _Server((HOST, port), _Handler)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        raise PipelineError(
            f"the pictures of the quickstart are pinned to http://{HOST}:{port}, but port {port} cannot be opened "
            f"({error.strerror}); end the process that holds it, or start the quickstart with a new root"
        ) from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # More than the downloader's threads: a full queue delays each connection by a second or more.
    request_queue_size = 256

    def __init__(self, *args: Any) -> None:
        self.stopping = threading.Event()
        super().__init__(*args)

    def server_bind(self) -> None:
        """Bind as HTTPServer does, but skip its lookup of the host name, which may hang without a network."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnected, which is expected; report any other error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "demo-web"
    sys_version = ""
    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        """Send the response of the path in its manner."""
        reply = answer(unquote(urlsplit(self.path).path))
        if reply.manner == "reset":
            self._reset()
            return
        if reply.manner == "slow":
            self.server.stopping.wait(SLOW_SECONDS)
        self._send_head(reply)
        cut = reply.manner in ("cut", "cut-unannounced")
        self.wfile.write(reply.body[: len(reply.body) // 2] if cut else reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Disable the log, which would have thousands of lines."""

    def _send_head(self, reply: Answer) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        if reply.manner != "cut-unannounced":
            self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers:
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        # Closing with a linger time of zero sends RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def main() -> None:
    """Serve until interrupted: ``python -m demo.web --port 8000``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8000, help="Port on 127.0.0.1; 0: a free one.")
    arguments = parser.parse_args()
    try:
        with serve_pictures(arguments.port) as base_url:
            sys.stdout.write(f"{base_url}/\n")
            sys.stdout.flush()
            threading.Event().wait()
    except PipelineError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
