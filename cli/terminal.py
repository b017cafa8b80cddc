"""Progress of a flow run on stderr: bars on a terminal, log lines elsewhere, or only warnings and errors."""

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
"""Prefect's variable for the level of console output; log records for the server go through another handler."""


@contextlib.contextmanager
def show_progress(quiet: bool) -> Iterator[None]:
    """Show the progress of the block's flow: with ``quiet`` warnings and errors, on a terminal bars, else log lines."""
    if quiet:
        with _limit_worker_output():
            setup_logging()
            yield
    elif sys.stderr.isatty():
        with _limit_worker_output(), _draw_bars():
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
def _limit_worker_output() -> Iterator[None]:
    """Let Dask workers that start in the block print only warnings and errors."""
    before = os.environ.get(_CONSOLE_LEVEL)
    os.environ[_CONSOLE_LEVEL] = "WARNING"
    try:
        yield
    finally:
        os.environ.pop(_CONSOLE_LEVEL)
        if before is not None:
            os.environ[_CONSOLE_LEVEL] = before


@contextlib.contextmanager
def _draw_bars() -> Iterator[None]:
    with _redirect_stderr() as terminal:
        name, words = TextColumn("{task.description}"), TextColumn("{task.fields[words]}")
        # Rich redirects only Python's streams; the pipe also receives the workers' output.
        options: dict[str, Any] = {"refresh_per_second": 2, "redirect_stdout": False, "redirect_stderr": False}
        with Progress(name, BarColumn(), TaskProgressColumn(), words, console=terminal, **options) as progress:
            token = SCREEN.set(_ProgressBars(progress).show)
            try:
                yield
            finally:
                SCREEN.reset(token)


class _ProgressBars:
    """A progress bar for each stage."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.of: dict[str, TaskID] = {}

    def show(self, key: str, pace: Pace) -> None:
        """Update a stage's bar, or add one for a new stage."""
        if key not in self.of:
            self.of[key] = self.progress.add_task(title(key), total=pace.total, words="")
        self.progress.update(self.of[key], total=pace.total, completed=pace.done, words=pace.in_words())


@contextlib.contextmanager
def _redirect_stderr() -> Iterator[Console]:
    """Redirect stderr and yield a console on the terminal; redirected lines are printed above the bars.

    Workers inherit stderr and are not aware of the bars. They write to a pipe, and this process prints its lines.
    """
    reading, writing = os.pipe()
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace") as stderr:
        console = Console(file=stderr)
        os.dup2(writing, 2)
        os.close(writing)
        reader = threading.Thread(target=_forward_lines, args=(reading, console), daemon=True)
        reader.start()
        try:
            yield console
        finally:
            sys.stderr.flush()
            os.dup2(stderr.fileno(), 2)
            reader.join(1)  # the pipe closes when the last process that holds it ends


def _forward_lines(reading: int, console: Console) -> None:
    with contextlib.suppress(ValueError), os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            console.print(Text.from_ansi(line.rstrip("\n")), soft_wrap=True)
