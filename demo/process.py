"""The demo's web in a separate process that outlives a killed quickstart for a few seconds.

A downloader runs for about a second after its quickstart was killed. If the web stopped at once, the downloader would
record its remaining URLs as failed, and a later run would not try them again.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from demo.web import serve_pictures
from tasks.contracts.errors import PipelineError

GRACE_SECONDS = 5.0
"""How long the web stays up after its quickstart was killed."""

PATIENCE_SECONDS = 20.0
"""How long to wait for a port that is in use: a killed quickstart's web holds it for a while."""


@contextlib.contextmanager
def pictures_process(port: int = 0, patience: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Serve the demo's web on ``port`` of 127.0.0.1 (0: a free one) from another process; yield the base URL.

    Raises PipelineError if the port is still in use after ``patience`` seconds.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "demo.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _wait_until_serving(process, port, patience)
    finally:
        process.terminate()
        process.communicate()


def _wait_until_serving(process: "subprocess.Popen[str]", port: int, patience: float) -> str:
    if process.stdin is None or process.stdout is None:
        raise PipelineError("the quickstart's web has no pipes to its parent")
    process.stdin.write(f"{port} {patience}\n")
    process.stdin.flush()
    kind, _, text = process.stdout.readline().strip().partition(" ")
    if kind != "serving":
        raise PipelineError(text or "the quickstart's web did not start; its error is above")
    return text


def _serve() -> None:
    port, patience = sys.stdin.readline().split()
    deadline = time.monotonic() + float(patience)
    while True:
        try:
            with serve_pictures(int(port)) as url:
                _write_line(f"serving {url}")
                sys.stdin.read()  # returns when the quickstart is gone; normally it terminates this process first
                time.sleep(GRACE_SECONDS)
                return
        except PipelineError as error:
            if time.monotonic() >= deadline:
                _write_line(f"error {error}")
                return
            time.sleep(0.5)


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
