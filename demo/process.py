"""The picture web in a process of its own, which outlives a killed quickstart for a moment.

A downloader whose quickstart was killed lives on for about a second. Were the web gone at once, it would use that
second to write down the rest of its URLs as failed, which no later run would try again.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator

from demo.web import serve_pictures
from tasks.contracts.errors import PipelineError

GRACE_SECONDS = 5.0
"""How long the web stays up when its quickstart has gone without ending it."""

PATIENCE_SECONDS = 20.0
"""How long a port may be taken before that is an error: a killed quickstart's web still holds it for a while."""


@contextlib.contextmanager
def pictures_process(port: int = 0, patience: float = PATIENCE_SECONDS) -> Iterator[str]:
    """Serve the demo's web on ``port`` of 127.0.0.1 (0: a free one) from another process; gives the base URL.

    Raises PipelineError if the port stays taken for ``patience`` seconds.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "demo.process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield _greet(process, port, patience)
    finally:
        process.terminate()
        process.communicate()


def _greet(process: "subprocess.Popen[str]", port: int, patience: float) -> str:
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
                _answer(f"serving {url}")
                sys.stdin.read()  # until the quickstart has gone; it ends this process if all is well
                time.sleep(GRACE_SECONDS)
                return
        except PipelineError as error:
            if time.monotonic() >= deadline:
                _answer(f"error {error}")
                return
            time.sleep(0.5)


def _answer(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve()
