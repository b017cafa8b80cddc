"""What a long stage shows while it runs: how far it is, how fast, and when it may end; and tables.

It is shown as artifacts in the Prefect UI, and on the terminal of the program that runs the flow, or else in the log.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.artifacts import (
    create_link_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.context import get_run_context
from prefect.exceptions import MissingContextError, PrefectException
from prefect.logging import get_run_logger

from tasks.running.pace import Pace

T = TypeVar("T")

Screen = Callable[[str, Pace], None]
SCREEN: ContextVar[Screen | None] = ContextVar("SCREEN", default=None)
"""Shows the pace of a stage, by the key of its artifact, on a terminal. Where there is none the log tells."""

EVERY_SECONDS = 10.0
LOGGED_EVERY_SECONDS = 30.0
ROWS_SHOWN = 500
"""Rows of a table artifact: it is kept in the server's database."""


class ProgressArtifact:
    """The progress of one stage: ``total`` things called ``unit``, of which ``done`` were done before it began.

    Outside a flow or task run it is not shown anywhere.
    """

    def __init__(self, key: str, total: int, unit: str, done: int = 0) -> None:
        self.key, self.pace = key, Pace(total, unit, done)
        self.told = self.logged = time.monotonic()
        self.id: UUID | None = None
        if not _in_a_run():
            return
        with _api_may_fail():
            created = create_progress_artifact(self.pace.percentage, key=key, description=f"{total:,} {unit}")
            self.id = created if isinstance(created, UUID) else None  # typed as if this might be a coroutine
        show_on_screen(key, self.pace)

    def at(self, done: int, *, now: bool = False) -> None:
        """Tell that ``done`` are done; the artifact hears of it at most every EVERY_SECONDS unless ``now``."""
        if not _in_a_run():
            return
        self.pace.done = done
        if not show_on_screen(self.key, self.pace):
            self._log(now)
        if self.id is None or not (now or time.monotonic() - self.told >= EVERY_SECONDS):
            return
        self.told = time.monotonic()
        with _api_may_fail():
            update_progress_artifact(self.id, self.pace.percentage, self.pace.in_words())

    def _log(self, now: bool) -> None:
        if now or time.monotonic() - self.logged >= LOGGED_EVERY_SECONDS:
            self.logged = time.monotonic()
            get_run_logger().info("%s: %s", title(self.key), self.pace.in_words())


def title(key: str) -> str:
    """The name of a stage for people: ``audit-progress`` -> ``audit``."""
    return key.removesuffix("-progress").replace("-", " ")


def show_on_screen(key: str, pace: Pace) -> bool:
    """Show a stage's pace on the terminal, if one shows this run; whether one does."""
    screen = SCREEN.get()
    if screen is not None:
        screen(key, pace)
    return screen is not None


def with_progress(things: Iterable[T], key: str, total: int, unit: str) -> Iterator[T]:
    """The same things, counted into a progress artifact that ends at 100 %."""
    artifact = ProgressArtifact(key, total, unit)
    count = 0
    for count, thing in enumerate(things, 1):
        yield thing
        artifact.at(count)
    artifact.pace.total = max(count, 1)  # fewer than expected may have been enough
    artifact.at(count or 1, now=True)


def show_table(key: str, rows: list[dict[str, Any]], description: str) -> None:
    """A table artifact of the first ROWS_SHOWN rows."""
    left = f"; the first {ROWS_SHOWN} of {len(rows):,} rows" if len(rows) > ROWS_SHOWN else ""
    with _api_may_fail():
        create_table_artifact(rows[:ROWS_SHOWN], key=key, description=description + left)


def show_link(key: str, link: str, description: str) -> None:
    """A link artifact; outside a flow or task run it is not shown."""
    if _in_a_run():
        with _api_may_fail():
            create_link_artifact(link=link, key=key, description=description)


def _in_a_run() -> bool:
    try:
        get_run_context()
    except MissingContextError:
        return False
    return True


@contextmanager
def _api_may_fail() -> Iterator[None]:
    """What is only shown must not end the work."""
    try:
        yield
    except (httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("an artifact could not be written: %s", error)
