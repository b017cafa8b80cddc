"""Startup of every Python process of a downloader environment: limits on answers, user agent, no orphans."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tasks.downloader_startup import VARIABLE
from tasks.images.environment import STARTUP

OK = b"HTTP/1.1 200 OK\r\n"
FETCH = """
import sys, time
sys.path.insert(0, sys.argv[1])
import downloader_startup, urllib.request
start = time.monotonic()
try:
    request = urllib.request.Request(sys.argv[2], headers={"User-Agent": "agent"})
    with urllib.request.urlopen(request, timeout=1) as answer:
        print(len(answer.read()), "bytes")
except Exception as error:
    print(error)
print(time.monotonic() - start)
"""


@contextmanager
def serving(pieces: Iterable[bytes], pause: float = 0.0) -> Iterator[tuple[str, list[bytes]]]:
    """Answer one request with these pieces; yield the address and the received request."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(65536))
                for piece in pieces:
                    try:
                        connection.sendall(piece)
                    except OSError:
                        return
                    time.sleep(pause)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", asked
        thread.join(20)


def fetch(
    url: str,
    token: str | None = None,
    limited: bool = True,
    allow_private: bool = True,
    network: str = "",
    proxy: str | None = None,
) -> tuple[str, float]:
    """Fetch in a process with limits of 2 s and 1,000 bytes; return its result and the time that it took.

    ``network`` is code that replaces parts of the process's network first.
    """
    limits = {"parent": os.getpid(), "seconds": 2, "bytes": 1000, "user_agent_token": token}
    limits["allow_private_hosts"] = allow_private
    environ = {name: value for name, value in os.environ.items() if name != VARIABLE and "proxy" not in name.lower()}
    environ |= {VARIABLE: json.dumps(limits)} if limited else {}
    environ |= {"http_proxy": proxy, "https_proxy": proxy} if proxy else {}
    command = [sys.executable, "-I", "-c", network + FETCH, str(STARTUP.parent), url]
    said, seconds = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.splitlines()
    return said, float(seconds)


def test_usual_answer_arrives() -> None:
    with serving([OK + b"Content-Length: 3\r\n\r\nabc"]) as (url, _):
        assert fetch(url)[0] == "3 bytes"


@pytest.mark.parametrize("head", [OK, OK + b"Content-Length: 50\r\n\r\n"])
def test_dripping_headers_or_body_meet_the_deadline(head: bytes) -> None:
    drops = [b"X-A: b\r\n"] * 20 if head == OK else [b"x"] * 20
    with serving([head, *drops], pause=0.4) as (url, _):
        said, seconds = fetch(url)
    assert said in ("answer took too long in all", "timed out")
    assert 1.5 < seconds < 6


@pytest.mark.parametrize("head", [b"Content-Length: 5000\r\n\r\n", b"\r\n"])
def test_large_answer_is_not_read_whether_announced_or_not(head: bytes) -> None:
    with serving([OK + head + bytes(5000)]) as (url, _):
        assert fetch(url)[0] == "answer is too large"


@pytest.mark.parametrize(
    ("value", "refused"),
    [(b"our-team: noai", True), (b"OUR-TEAM: x, NoImageAI", True), (b"other: noai", False), (b"our-team: all", False)],
)
def test_opt_out_that_names_us_is_honoured(value: bytes, refused: bool) -> None:
    with serving([OK + b"Content-Length: 1\r\nX-Robots-Tag: " + value + b"\r\n\r\na"]) as (url, asked):
        said = fetch(url, token="our-team")[0]
    assert said == ("Use of image disallowed by X-Robots-Tag directive" if refused else "1 bytes")
    assert b"User-Agent: agent (compatible; our-team; +https://github.com/rom1504/img2dataset)\r\n" in asked[0]


def test_without_the_variable_nothing_changes() -> None:
    with serving([OK + b"\r\n" + bytes(5000)]) as (url, asked):
        assert fetch(url, limited=False)[0] == "5000 bytes"
    assert b"User-Agent: agent\r\n" in asked[0]


def test_process_and_its_children_end_with_their_parent(tmp_path: Path) -> None:
    script = tmp_path / "chain.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(STARTUP.parent)!r})\n"
        "import downloader_startup, subprocess, os, time\n"
        "if len(sys.argv) == 1:\n    subprocess.Popen([sys.executable, __file__, 'child'])\n"
        "print(os.getpid(), flush=True)\ntime.sleep(60)\n"
    )
    start = (
        "import json, os, subprocess, sys\n"
        f"limits = dict(parent=os.getpid(), seconds=1, bytes=1, user_agent_token=None, allow_private_hosts=True)\n"
        f"environ = dict(os.environ, {VARIABLE}=json.dumps(limits))\n"
        f"subprocess.Popen([sys.executable, {str(script)!r}], env=environ).wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.1)
