"""Groups of jobs: one task run processes several shards, so that the number of task runs stays bounded."""

import functools
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from prefect.logging import get_run_logger

from tasks.contracts.errors import PipelineError, TransientError
from tasks.io.fingerprints import NotNotedError, by_notes_alone
from tasks.io.storage import spoken

SHOWN = 20


class ShardJob(Protocol):
    """The work on one shard. ``name`` distinguishes its task run from others."""

    @property
    def name(self) -> str:
        """Name of the shard, such as 00000017."""

    def finished(self) -> Any:
        """Return the recorded result if the receipt is valid, else None."""

    def cache_parts(self) -> dict[str, Any] | None:
        """Return what identifies the work for the cache. None: uncached."""


Job = TypeVar("Job", bound=ShardJob)


@dataclass(frozen=True)
class Group(Generic[Job]):
    """Jobs in order, at least one. A group of one has its job's name and cache key."""

    jobs: tuple[Job, ...]

    @property
    def name(self) -> str:
        """Name of the only job, or of the first and the last one."""
        first, last = self.jobs[0].name, self.jobs[-1].name
        return first if len(self.jobs) == 1 else f"{first}..{last}"

    def cache_parts(self) -> dict[str, Any] | None:
        """Return the cache parts of the only job. Larger groups are uncached: a rerun groups only unfinished jobs."""
        return self.jobs[0].cache_parts() if len(self.jobs) == 1 else None

    def is_done(self) -> bool:
        """Return whether every job has a valid receipt."""
        return all(job.finished() is not None for job in self.jobs)

    def halves(self) -> "tuple[Group[Job], ...]":
        """Return the two halves of the group; empty if it has only one job."""
        middle = len(self.jobs) // 2
        return (Group(self.jobs[:middle]), Group(self.jobs[middle:])) if middle else ()

    def __str__(self) -> str:
        first, last = self.jobs[0], self.jobs[-1]
        return str(first) if len(self.jobs) == 1 else f"{first} … {last}"


class GroupError(PipelineError):
    """Some jobs of a group failed; the others are done. ``failures`` holds the error messages by job name."""

    def __init__(self, failures: dict[str, str]) -> None:
        super().__init__(failures)
        self.failures = failures

    def __str__(self) -> str:
        shown = [f"{name}: {message}" for name, message in itertools.islice(self.failures.items(), SHOWN)]
        left = len(self.failures) - len(shown)
        return "; ".join(shown) + (f"; and {left} more" if left else "")


class TransientGroupError(GroupError, TransientError):
    """Some jobs of a group failed, and at least one of them may succeed on a retry."""


def group_size(jobs: int, task_runs: int) -> int:
    """Return the number of jobs per task run that keeps the number of task runs at or below ``task_runs``."""
    return max(1, -(-jobs // task_runs))


def in_groups(jobs: Iterable[Job], size: int) -> Iterator[Group[Job]]:
    """Yield the jobs in order in groups of ``size``. Read them only as groups are taken."""
    source = iter(jobs)
    while members := tuple(itertools.islice(source, size)):
        yield Group(members)


def do_each(group: Group[Job], work: Callable[[Job], Any]) -> int:
    """Run ``work`` for every job in order and return the number of jobs. A failed job does not stop the others.

    ``work`` must skip a job with a valid receipt, since a retry repeats the whole group. Raises the error of the only
    job, or GroupError for several.
    """
    spare_imports()
    if len(group.jobs) == 1:
        work(group.jobs[0])
        return 1
    failures: dict[str, str] = {}
    kind = GroupError
    for job in group.jobs:
        try:
            work(job)
        except Exception as caught:
            error = spoken(caught)
            fault_of_data = isinstance(error, PipelineError) and not isinstance(error, TransientError)
            get_run_logger().error("%s failed: %s", job, error, exc_info=not isinstance(error, PipelineError))
            failures[job.name] = str(error) or type(error).__name__
            kind = kind if fault_of_data else TransientGroupError
    if failures:
        raise kind(failures)
    return len(group.jobs)


@functools.cache
def spare_imports() -> None:
    """Freeze imported objects, so that Python's garbage collector skips them.

    Otherwise one of its full collections takes 60 ms, and it does one every few shards.
    """
    gc.freeze()


def look_up(jobs: Iterable[Job], task_runs: int) -> Iterator[tuple[Job, Any]]:
    """Yield each job with the result in its valid receipt, or None: finished jobs need not be submitted.

    With at most ``task_runs`` jobs, look nothing up and yield None: each task run then shows as Cached if finished.
    """
    jobs = list(jobs)
    for job in jobs:
        yield job, None if len(jobs) <= task_runs else finished_by_notes(job)


def finished_by_notes(job: ShardJob) -> Any:
    """Return ``job.finished()`` from noted hashes only, without hashing; None if a note is missing.

    For the flow's own process, where hashing a shard would block all others.
    """
    try:
        with by_notes_alone():
            return job.finished()
    except NotNotedError:
        return None
