"""Progress, tables and links of a running stage.

They appear as artifacts in the Prefect UI. Progress also appears on the terminal of the program that runs the flow, or
else in the log.
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
"""Function that shows a stage's pace on a terminal, by artifact key. If it is None, progress is logged."""

EVERY_SECONDS = 10.0
LOGGED_EVERY_SECONDS = 30.0
ROWS_SHOWN = 500
"""Most rows of a table artifact, since the server's database stores them."""


class ProgressArtifact:
    """The progress artifact of one stage with ``total`` units, of which ``done`` were done before it started.

    Outside a flow or task run it does nothing.
    """

    def __init__(self, key: str, total: int, unit: str, done: int = 0) -> None:
        self.key, self.pace = key, Pace(total, unit, done)
        self.told = self.logged = time.monotonic()
        self.id: UUID | None = None
        if not _in_a_run():
            return
        with _api_may_fail():
            created = create_progress_artifact(self.pace.percentage, key=key, description=f"{total:,} {unit}")
            self.id = created if isinstance(created, UUID) else None  # Prefect's type allows a coroutine here too
        show_on_screen(key, self.pace)

    def at(self, done: int, *, now: bool = False) -> None:
        """Report that ``done`` units are done; update the artifact at most every EVERY_SECONDS, or if ``now``."""
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
    """Return a stage's display name: ``audit-progress`` -> ``audit``."""
    return key.removesuffix("-progress").replace("-", " ")


def show_on_screen(key: str, pace: Pace) -> bool:
    """Show a stage's pace on the terminal that shows this run; return whether there is one."""
    screen = SCREEN.get()
    if screen is not None:
        screen(key, pace)
    return screen is not None


def with_progress(things: Iterable[T], key: str, total: int, unit: str) -> Iterator[T]:
    """Yield the same things, and count them in a progress artifact that ends at 100 %."""
    artifact = ProgressArtifact(key, total, unit)
    count = 0
    for count, thing in enumerate(things, 1):
        yield thing
        artifact.at(count)
    artifact.pace.total = max(count, 1)  # there may be fewer things than expected
    artifact.at(count or 1, now=True)


def show_table(key: str, rows: list[dict[str, Any]], description: str) -> None:
    """Create a table artifact of the first ROWS_SHOWN rows."""
    left = f"; the first {ROWS_SHOWN} of {len(rows):,} rows" if len(rows) > ROWS_SHOWN else ""
    with _api_may_fail():
        create_table_artifact(rows[:ROWS_SHOWN], key=key, description=description + left)


def show_link(key: str, link: str, description: str) -> None:
    """Create a link artifact; outside a flow or task run, do nothing."""
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
    """Log API errors as warnings: a display problem must not fail the work."""
    try:
        yield
    except (httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("an artifact could not be written: %s", error)
