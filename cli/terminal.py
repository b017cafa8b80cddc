"""What a flow program shows of its run on stderr: bars on a terminal, plain lines elsewhere, or only what is wrong."""

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from prefect.logging.configuration import setup_logging
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn
from rich.text import Text

from cli.server import Api
from tasks.running.pace import Pace
from tasks.running.progress import SCREEN, title

_CONSOLE_LEVEL = "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"
"""Prefect's variable for what it prints; what it sends to the server is another handler's."""


@contextlib.contextmanager
def watched_run(quiet: bool) -> Iterator[None]:
    """Show the flow that runs in the block: with ``quiet`` warnings and errors, on a terminal bars, else log lines."""
    if quiet:
        with _workers_only_warn():
            setup_logging()
            yield
    elif sys.stderr.isatty():
        with _workers_only_warn(), _bars():
            yield
    else:
        yield


def announce_ui(api: Api, quiet: bool) -> None:
    """Report on stderr where the UI of an own server is.

    This replaces Prefect's "View at …" lines, whose addresses would ask for a password. Only a terminal gets the link
    with the one-time code: other users may be able to read a log.
    """
    if not api.own:
        return
    logging.getLogger("prefect.flow_runs").addFilter(_is_no_address)
    if not quiet:
        password = f"{api.ui} (its password is in {api.environment_file})"
        link = api.link if sys.stderr.isatty() else password
        sys.stderr.write(f"Prefect UI until this program ends: {link}\n")


def _is_no_address(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("View at ")


@contextlib.contextmanager
def _workers_only_warn() -> Iterator[None]:
    """Dask workers that are started in the block print no line below a warning."""
    before = os.environ.get(_CONSOLE_LEVEL)
    os.environ[_CONSOLE_LEVEL] = "WARNING"
    try:
        yield
    finally:
        os.environ.pop(_CONSOLE_LEVEL)
        if before is not None:
            os.environ[_CONSOLE_LEVEL] = before


@contextlib.contextmanager
def _bars() -> Iterator[None]:
    with _outlet() as terminal:
        name, words = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
        # Rich would redirect Python's streams only; the pipe has those, and the workers' too.
        options: dict[str, Any] = {"refresh_per_second": 2, "redirect_stdout": False, "redirect_stderr": False}
        with Progress(name, BarColumn(), TaskProgressColumn(), words, console=terminal, **options) as progress:
            token = SCREEN.set(_Bars(progress).show)
            try:
                yield
            finally:
                SCREEN.reset(token)


class _Bars:
    """A bar for each stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.of: dict[str, TaskID] = {}

    def show(self, key: str, pace: Pace) -> None:
        """Bring a stage's bar up to date; a stage that begins gets a new one."""
        if key not in self.of:
            self.of[key] = self.progress.add_task(title(key), total=pace.total, words="")
        self.progress.update(self.of[key], total=pace.total, completed=pace.done, words=pace.in_words())


@contextlib.contextmanager
def _outlet() -> Iterator[Console]:
    """The terminal, to draw on. What this process and its children write to stderr meanwhile appears above that.

    Workers write to the same terminal without knowing of the bars: so they get a pipe, whose lines are printed here.
    """
    reading, writing = os.pipe()
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace") as stderr:
        console = Console(file=stderr)
        os.dup2(writing, 2)
        os.close(writing)
        reader = threading.Thread(target=_pass_on, args=(reading, console), daemon=True)
        reader.start()
        try:
            yield console
        finally:
            sys.stderr.flush()
            os.dup2(stderr.fileno(), 2)
            reader.join(1)  # its pipe ends with the last process that holds it


def _pass_on(reading: int, console: Console) -> None:
    with contextlib.suppress(ValueError), os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            console.print(Text.from_ansi(line.rstrip("\n")), soft_wrap=True)
