"""Fan-out: one task over many jobs on a task runner, which survives lost workers.

Dask reruns a task run when its worker dies. When Dask gives up, Prefect's retries do not start, and the task run stays
Running. So we do not wait on a list of futures. A window of jobs is in flight, and finished futures arrive through a
queue. A future that Dask lost is reported as Crashed and submitted again. Every future is released at once, since Dask
recomputes held results when their worker dies.
"""

import queue
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar, cast, runtime_checkable
from uuid import UUID

import httpx
from prefect import Task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import SettingsContext, get_settings_context
from prefect.logging import get_run_logger
from prefect.states import Crashed
from pydantic import PrivateAttr

from tasks.contracts.cluster_profile import ClusterProfile
from tasks.contracts.errors import PipelineError
from tasks.running.groups import Group, GroupError, ShardJob, group_size, in_groups
from tasks.running.progress import with_progress

Job = TypeVar("Job")
OneJob = TypeVar("OneJob", bound=ShardJob)

LOST_ATTEMPTS = 2
"""Submissions of a job whose workers die before it counts as failed (see Dask's allowed-failures too)."""

STALL_SECONDS = 2 * 3600.0
"""Seconds without a finished job after which the run gives up: far longer than any shard takes."""


RECORD_SECONDS = 5.0
"""Seconds to wait until the API knows a lost task run, whose events may still be on their way."""

LOOK_SECONDS = 10.0
"""Seconds between two checks of the cluster while waiting for a job to end."""


JOBS_PER_WORKER = 3
"""Jobs submitted per worker slot, so that a worker never waits for its next job."""


class Submits(Protocol):
    """The part of Prefect's task runners that fan-out uses."""

    def submit(self, task: Task[..., Any], parameters: dict[str, Any]) -> Any:
        """Start a task run and return its future."""


class JobRunner(Submits, Protocol):
    """A task runner that knows how many jobs its workers run at a time."""

    jobs_at_once: int

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


@dataclass(frozen=True)
class Outcome(Generic[Job]):
    """The result of a job, or the error that it failed with."""

    job: Job
    result: Any = None
    error: BaseException | None = None


@runtime_checkable
class TellsOfItsCluster(Protocol):
    """A task runner that reports when its cluster has failed."""

    def cluster_failure(self) -> str | None:
        """Return why jobs cannot run any more, or None while they can."""


def run_each(runner: Submits, task: Task[..., Any], jobs: Iterable[Job], window: int) -> Iterator[Outcome[Job]]:
    """Run ``task(job=job)`` for every job, at most ``window`` at a time; yield outcomes as they arrive.

    ``jobs`` is read only when the window has room, so a generator can decide late whether there is more to do.
    Retry a lost job alone, after all others in flight: if another job killed the worker, this one now succeeds.
    Must be called inside a flow run. Raises PipelineError after STALL_SECONDS without a finished job, or if the cluster
    failed.
    """
    flight: _Flight[Job] = _Flight(runner, task)
    source = iter(jobs)
    while True:
        while not flight.suspects and len(flight.running) < window and (job := next(source, None)) is not None:
            flight.submit(job, attempt=1)
        if not flight.running and flight.suspects:
            flight.submit(*flight.suspects.pop(0))
        if not flight.running:
            flight.tell_crashed(RECORD_SECONDS)
            return
        outcome = flight.next_outcome()
        if outcome is not None:
            yield outcome


def run_jobs(
    runner: JobRunner,
    task: Task[..., Any],
    jobs: Iterable[OneJob],
    profile: ClusterProfile,
    *,
    stage: str,
    unit: str,
    total: int,
    ahead: int | None = None,
) -> Iterator[Outcome[OneJob]]:
    """Run ``task(job=group)`` over all jobs of a stage; yield one outcome per job as they arrive.

    Jobs are grouped into at most ``profile.task_runs`` task runs. ``total`` is the number of jobs, for grouping and
    for the progress, which counts in ``unit``. ``ahead`` is the number of groups in flight beyond one per worker slot,
    by default two more per slot. A group that Dask lost is split in halves, until a job that always kills its worker
    is alone. Raises PipelineError like ``run_each``.
    """
    window = JOBS_PER_WORKER * runner.jobs_at_once if ahead is None else runner.jobs_at_once + ahead
    groups = in_groups(jobs, group_size(total, profile.task_runs))
    outcomes = _job_outcomes(run_each(runner, task, groups, window))
    yield from with_progress(outcomes, f"{stage}-progress", total, unit)


def _job_outcomes(group_outcomes: Iterable[Outcome[Group[OneJob]]]) -> Iterator[Outcome[OneJob]]:
    for outcome in group_outcomes:
        for job in outcome.job.jobs:
            yield Outcome(job, error=_error_of(job, outcome.error))


def _error_of(job: ShardJob, error: BaseException | None) -> BaseException | None:
    if not isinstance(error, GroupError):
        return error
    return PipelineError(error.failures[job.name]) if job.name in error.failures else None


class SettingsOnce(SettingsContext):
    """Prefect's settings, serialized once: Prefect does so for every task run, which takes 16 ms."""

    _serialized: dict[str, Any] = PrivateAttr(default_factory=dict)

    def serialize(self, include_secrets: bool = True) -> dict[str, Any]:
        """Return the settings as Prefect sends them to workers."""
        if not self._serialized:
            self._serialized = super().serialize(include_secrets=True)
        return self._serialized if include_secrets else super().serialize(include_secrets=False)


class _Flight(Generic[Job]):
    """The jobs in flight, and the lost ones that wait for a retry."""

    def __init__(self, runner: Submits, task: Task[..., Any]) -> None:
        self.runner = runner
        self.task = task
        current = get_settings_context()
        self.settings = SettingsOnce(profile=current.profile, settings=current.settings)
        self.running: dict[UUID, tuple[Any, Job, int]] = {}
        self.finished: queue.Queue[UUID] = queue.Queue()
        self.crashed: dict[UUID, str] = {}
        self.suspects: list[tuple[Job, int]] = []

    def submit(self, job: Job, attempt: int) -> None:
        """Submit a job to the runner; put its run id into the queue when it ends."""
        with self.settings:
            future = self.runner.submit(self.task, parameters={"job": job})
        run_id = future.task_run_id
        self.running[run_id] = (future.wrapped_future, job, attempt)
        future.wrapped_future.add_done_callback(lambda _: self.finished.put(run_id))

    def next_outcome(self) -> Outcome[Job] | None:
        """Wait for one job and return its outcome, or None if the job was lost and will be retried."""
        run_id = self._next_finished()
        wrapped, job, attempt = self.running[run_id]
        try:
            if getattr(wrapped, "status", "finished") == "finished":
                return _outcome(job, wrapped.result())
            self._end_with_the_cluster()
            return self._lost(run_id, job, attempt, wrapped.status)
        finally:
            self.running.pop(run_id)
            getattr(wrapped, "release", lambda: None)()

    def tell_crashed(self, seconds: float) -> None:
        """Set lost task runs to Crashed. Retry for up to ``seconds`` those that the API does not know yet."""
        deadline = time.monotonic() + seconds
        while True:
            self.crashed = {run_id: why for run_id, why in self.crashed.items() if not _report_crashed(run_id, why)}
            if not self.crashed or time.monotonic() > deadline:
                return
            time.sleep(0.5)

    def _next_finished(self) -> UUID:
        deadline = time.monotonic() + STALL_SECONDS
        while time.monotonic() < deadline:
            try:
                return self.finished.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                self._end_with_the_cluster()
        self._give_up(f"no job ended for {STALL_SECONDS:.0f} s; look at the Dask dashboard")

    def _end_with_the_cluster(self) -> None:
        if isinstance(self.runner, TellsOfItsCluster) and (why := self.runner.cluster_failure()):
            self._give_up(why)

    def _give_up(self, why: str) -> NoReturn:
        """Raise PipelineError, after setting all unfinished task runs to Crashed: they would stay Running."""
        self.crashed |= dict.fromkeys(self.running, why)
        self.tell_crashed(RECORD_SECONDS)
        jobs = ", ".join(str(job) for _, job, _ in self.running.values())
        raise PipelineError(f"{why}; unfinished: {jobs}. Run again: finished work is kept")

    def _lost(self, run_id: UUID, job: Job, attempt: int, status: str) -> Outcome[Job] | None:
        message = f"Dask gave up on this task run ({status}): its worker died, attempt {attempt} of {LOST_ATTEMPTS}"
        self.crashed[run_id] = message
        self.tell_crashed(0)
        if isinstance(job, Group) and (halves := job.halves()):
            get_run_logger().warning("%s: Dask gave up on them (%s): a worker died; they go on in halves", job, status)
            self.suspects += [(cast(Job, half), 1) for half in halves]
            return None
        if attempt < LOST_ATTEMPTS:
            get_run_logger().warning("%s: %s", job, message)
            self.suspects.append((job, attempt + 1))
            return None
        return Outcome(job, error=PipelineError(f"{job}: {message}; see the worker's log for what killed it"))


def _outcome(job: Job, state: State[Any]) -> Outcome[Job]:
    result = state.result(raise_on_failure=False)
    if state.is_completed():
        return Outcome(job, result=result)
    error = result if isinstance(result, BaseException) else PipelineError(f"{job}: {state.message}")
    return Outcome(job, error=error)


def _report_crashed(run_id: UUID, message: str) -> bool:
    """Set a task run to Crashed; return whether the API accepted it. It answers 404 before the run's first event."""
    with get_client(sync_client=True) as client:
        try:
            client.set_task_run_state(run_id, Crashed(message=message), force=True)
        except httpx.HTTPError as error:
            get_run_logger().debug("task run %s cannot be set to Crashed: %s", run_id, error)
            return False
    return True
