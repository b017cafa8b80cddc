"""Servers of other Prefect versions: a clear error if the version cannot work."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

ANSWERS = {"/api/health": True, "/api/admin/version": "2.20.1"}


@pytest.fixture
def prefect_2() -> Iterator[str]:
    """A server that answers health and version requests as Prefect 2 does."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(ANSWERS.get(self.path)).encode()
            self.send_response(200 if self.path in ANSWERS else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("command", [["deploy", "--pool", "local"], ["audit", "--shards-dir", "."], ["automations"]])
def test_a_server_of_another_major_version_is_refused_in_a_sentence(
    program: Callable[..., Any], prefect_2: str, command: list[str]
) -> None:
    done = program("cli", *command, PREFECT_API_URL=prefect_2)
    assert done.status in {1, 2} and "Traceback" not in done.stderr
    assert f"the Prefect server at {prefect_2}" in done.stderr and "server: 2.20.1" in done.stderr
    assert "Use a server of Prefect 3.8 or newer" in done.stderr
