"""What a long stage shows in the Prefect UI while it runs: how far it is, how fast, and when it may end; and tables."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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

T = TypeVar("T")

EVERY_SECONDS = 10.0
ROWS_SHOWN = 500
"""Rows of a table artifact: it is kept in the server's database."""


class ProgressArtifact:
    """The progress of one stage: ``total`` things called ``unit``, of which ``done`` were done before it began.

    Outside a flow or task run it is not shown anywhere.
    """

    def __init__(self, key: str, total: int, unit: str, done: int = 0) -> None:
        self.total, self.unit, self.done_before = max(total, 1), unit, done
        self.started = self.told = time.monotonic()
        self.id: UUID | None = None
        if not _in_a_run():
            return
        with _api_may_fail():
            created = create_progress_artifact(100 * done / self.total, key=key, description=f"{total:,} {unit}")
            self.id = created if isinstance(created, UUID) else None  # typed as if this might be a coroutine

    def at(self, done: int, *, now: bool = False) -> None:
        """Tell that ``done`` are done; at most every EVERY_SECONDS unless ``now``."""
        if self.id is None or not (now or time.monotonic() - self.told >= EVERY_SECONDS):
            return
        self.told = time.monotonic()
        with _api_may_fail():
            update_progress_artifact(self.id, min(100 * done / self.total, 100.0), self.in_words(done))

    def in_words(self, done: int) -> str:
        """How many, how fast, and how long it may still take at that rate."""
        seconds = max(time.monotonic() - self.started, 1e-3)
        rate = (done - self.done_before) / seconds
        words = f"{done:,} of {self.total:,} {self.unit}, {60 * rate:,.1f} a minute"
        if rate > 0 and done < self.total:
            words += f", about {(self.total - done) / rate / 60:,.0f} minutes left"
        return words


def with_progress(things: Iterable[T], key: str, total: int, unit: str) -> Iterator[T]:
    """The same things, counted into a progress artifact that ends at 100 %."""
    artifact = ProgressArtifact(key, total, unit)
    count = 0
    for count, thing in enumerate(things, 1):
        yield thing
        artifact.at(count)
    artifact.total = max(count, 1)  # fewer than expected may have been enough
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
