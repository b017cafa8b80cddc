"""Groups of jobs: one task run takes a run of shards, so that the number of task runs stays bounded."""

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
    """The work on one shard; ``name`` is the part of a task run's name that tells it from others."""

    @property
    def name(self) -> str:
        """As in 00000017."""

    def finished(self) -> Any:
        """What a valid receipt tells of, or None."""

    def cache_parts(self) -> dict[str, Any] | None:
        """What identifies the work; None: not cached."""


Job = TypeVar("Job", bound=ShardJob)


@dataclass(frozen=True)
class Group(Generic[Job]):
    """Jobs in order, at least one. A group of one is as good as its job."""

    jobs: tuple[Job, ...]

    @property
    def name(self) -> str:
        """The job's name, or the first and the last one's."""
        first, last = self.jobs[0].name, self.jobs[-1].name
        return first if len(self.jobs) == 1 else f"{first}..{last}"

    def cache_parts(self) -> dict[str, Any] | None:
        """None for several jobs: finished ones are left out before a group is made, so that no group comes twice."""
        return self.jobs[0].cache_parts() if len(self.jobs) == 1 else None

    def is_done(self) -> bool:
        """Whether every job has its valid receipt."""
        return all(job.finished() is not None for job in self.jobs)

    def halves(self) -> "tuple[Group[Job], ...]":
        """The group in two; none where it has only one job."""
        middle = len(self.jobs) // 2
        return (Group(self.jobs[:middle]), Group(self.jobs[middle:])) if middle else ()

    def __str__(self) -> str:
        first, last = self.jobs[0], self.jobs[-1]
        return str(first) if len(self.jobs) == 1 else f"{first} … {last}"


class GroupError(PipelineError):
    """Some jobs of a group failed, and the others are done. ``failures``: what each one said, by the job's name."""

    def __init__(self, failures: dict[str, str]) -> None:
        super().__init__(failures)
        self.failures = failures

    def __str__(self) -> str:
        shown = [f"{name}: {message}" for name, message in itertools.islice(self.failures.items(), SHOWN)]
        left = len(self.failures) - len(shown)
        return "; ".join(shown) + (f"; and {left} more" if left else "")


class TransientGroupError(GroupError, TransientError):
    """At least one of them may succeed when it is tried again."""


def group_size(jobs: int, task_runs: int) -> int:
    """How many jobs each task run takes, so that there are at most ``task_runs``."""
    return max(1, -(-jobs // task_runs))


def in_groups(jobs: Iterable[Job], size: int) -> Iterator[Group[Job]]:
    """The jobs in order, ``size`` a group; they are read only as groups are taken."""
    source = iter(jobs)
    while members := tuple(itertools.islice(source, size)):
        yield Group(members)


def do_each(group: Group[Job], work: Callable[[Job], Any]) -> int:
    """Do ``work`` for every job in order and return their number; one that fails does not stop those after it.

    ``work`` must have nothing to do for a job with a valid receipt: a retry comes here with the whole group. Raises
    what the only job raised, or GroupError.
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
    """Keep Python's collector off all that was imported: with it, one of its rounds takes 60 ms, and each few shards
    it makes one."""
    gc.freeze()


def look_up(jobs: Iterable[Job], task_runs: int) -> Iterator[tuple[Job, Any]]:
    """Each job with what its valid receipt tells, or None: finished ones need not be handed to anybody.

    With at most ``task_runs`` jobs nothing is looked up: the task run of each shows that it was finished (Cached).
    """
    jobs = list(jobs)
    for job in jobs:
        yield job, None if len(jobs) <= task_runs else finished_by_notes(job)


def finished_by_notes(job: ShardJob) -> Any:
    """What ``job.finished()`` tells, by the notes of hashes alone: nothing is hashed; None where a note is wanting.

    For the flow's own process, where reading a shard would keep all others waiting.
    """
    try:
        with by_notes_alone():
            return job.finished()
    except NotNotedError:
        return None
