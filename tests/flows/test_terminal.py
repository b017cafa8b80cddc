"""Progress output of a program: bars on a terminal, lines in a pipe, and little with --quiet or --json."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from tests.golden import copy_shards


def on_a_terminal(server: str, stdout, *arguments: object) -> tuple[int, str]:
    """Run a program whose stderr is a pseudo-terminal of 140 columns; return its exit status and its output there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    with stdout.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            stdout=output,
            stderr=theirs,
            env=os.environ | {"PREFECT_API_URL": server, "TERM": "xterm"},
        )
    os.close(theirs)
    drawn = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    return process.wait(60), drawn.decode(errors="replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux raises this when the last process has closed its end
        return b""


@pytest.fixture
def shards(tmp_path):
    return copy_shards("golden", tmp_path / "raw" / "shards")


def test_a_terminal_shows_a_bar_with_rate_and_stdout_is_for_machines(prefect_server, shards, tmp_path):
    stdout = tmp_path / "stdout"
    status, drawn = on_a_terminal(prefect_server, stdout, "flows.audit", "--shards-dir", shards, "--json")
    assert status == 0, drawn
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    assert re.search(r"audit ━+ +0% 0 of 3 shards", plain)
    assert re.search(r"audit ━+ +100% 3 of 3 shards, [\d.,]+ a minute", plain)
    assert "3 shards: 192 attempts" in plain  # the log of this process, above the bar
    assert "audit-00000000" not in plain  # the workers' output
    assert json.loads(stdout.read_text(encoding="utf-8"))["successes"] == 141


def test_a_pipe_gets_plain_lines_and_the_result_in_words_and_as_json(program, shards):
    done = program("flows.audit", "--shards-dir", shards, "--gate.expected-attempts", "192")
    assert done.status == 0, done.stderr
    words = "3 shards, 141 of 192 URLs succeeded, 0 findings"
    assert done.stdout.splitlines()[0] == words
    assert f"Finished in state Completed('{words}')" in done.stderr
    assert re.search(r"audit: 3 of 3 shards, [\d.,]+ a minute", done.stderr)
    assert "\x1b" not in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["successes"] == 141


def test_quiet_shows_only_what_is_wrong(program):
    done = program("flows.check", "--dataset-dir", "nothing", "--quiet")
    assert done.status == 1
    levels = {line.split("|")[1].strip() for line in done.stderr.splitlines() if line.count("|") > 1}
    assert "ERROR" in levels and "INFO" not in levels
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert done.stdout == ""
