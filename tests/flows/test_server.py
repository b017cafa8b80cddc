"""The server that a program starts for its run."""

import os
import sys
import threading
import time

from cli import server


def test_a_server_that_is_lost_is_started_again_and_one_that_cannot_start_is_not(tmp_path, monkeypatch):
    starts = tmp_path / "starts"
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(server, "_SERVER", ["sh", "-c", f"echo >> {starts}"])
        server._serve_until_parent_ends(0)
        assert starts.read_text() == "\n"

        monkeypatch.setattr(server, "_SETTLED_SECONDS", 0.0)
        lost_once = f"echo >> {starts}; test $(wc -l < {starts}) -lt 3 || exec sleep 99"
        monkeypatch.setattr(server, "_SERVER", ["sh", "-c", lost_once])
        serving = threading.Thread(target=server._serve_until_parent_ends, args=(0,))
        serving.start()
        deadline = time.monotonic() + 60
        while starts.read_text() != "\n" * 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        os.close(writing)
        serving.join(60)
    assert not serving.is_alive() and starts.read_text() == "\n" * 3
