"""Sees jobs to their end: tells Prefect what Slurm says, cancels what Prefect cancels, settles what has ended."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun

from deployments.slurm import states
from deployments.slurm.commands import Slurm, SlurmUnavailable
from deployments.slurm.environment import remove_environment
from deployments.slurm.folder import log_tail
from deployments.slurm.jobs import JobReport, read_receipt
from deployments.slurm.pid import JobPid
from deployments.slurm.poller import Poller
from deployments.slurm.reasons import explain, never_starts
from deployments.slurm.settings import SlurmWorkerSettings
from deployments.slurm.variables import JobVariables
from deployments.slurm.verdict import Fate, Verdict, judge
from tasks.errors import PipelineError

if TYPE_CHECKING:
    from deployments.slurm.worker import SlurmWorker

_PAGE = 200
_QUIET_SECONDS = 60  # two reasons that alternate are not told more often than this


@dataclass
class Supervised:
    """A job and the flow run it executes."""

    run: FlowRun
    pid: JobPid
    folder: Path | None
    variables: JobVariables
    told: str = ""
    told_at: float = 0
    restarts: int = 0
    cancelling_since: float | None = None

    @property
    def flow_run_id(self) -> UUID:
        """Id of the run."""
        return self.run.id


class Supervisor:
    """All jobs of one worker."""

    def __init__(self, worker: "SlurmWorker", slurm: Slurm, poller: Poller, settings: SlurmWorkerSettings) -> None:
        self._worker, self._slurm, self._poller, self._settings = worker, slurm, poller, settings
        self._jobs: dict[UUID, Supervised] = {}

    def watches(self, flow_run_id: UUID) -> bool:
        """Whether the run's job is being watched."""
        return flow_run_id in self._jobs

    async def see_to_its_end(self, job: Supervised) -> None:
        """Watch a job until it has ended, and give its run the end that it had."""
        watched = self._jobs.get(job.flow_run_id)
        if watched is not None and watched.pid == job.pid:
            return
        self._jobs[job.flow_run_id] = job
        try:
            report = await self._poller.watch(job.pid.job_id, job.variables.requeue, lambda r: self._changed(job, r))
            await self._settle(job, report)
        finally:
            if self._jobs.get(job.flow_run_id) is job:
                del self._jobs[job.flow_run_id]

    async def poll_for_ever(self) -> None:
        """Look at the queue and at cancellations, again and again; no error ends this."""
        while True:
            try:
                await self._poller.poll()
                await self._cancel_what_is_cancelled()
            except Exception:
                # The API may be away for a while, and one broken answer must not leave all jobs unwatched.
                self._worker._logger.exception("Looking after Slurm jobs failed; trying again.")
            await self._poller.pause()

    async def _changed(self, job: Supervised, report: JobReport) -> None:
        if report.restarts > job.restarts:
            job.restarts = report.restarts
            message = f"Slurm requeued job {report.job_id} (restart {report.restarts})"
            if report.waiting:
                await states.tell_requeued(self._worker.client, job.flow_run_id, message)
            self._log(job, message)
        if report.waiting:
            await self._tell_waiting(job, report)
        else:
            self._log(job, f"Slurm job {report.job_id} is {report.state} on {report.nodes or 'its nodes'}")

    async def _tell_waiting(self, job: Supervised, report: JobReport) -> None:
        message = f"Slurm job {report.job_id} waits ({report.state}): {explain(report.reason, report.job_id)}"
        soon = bool(job.told) and time.monotonic() - job.told_at < _QUIET_SECONDS
        if message == job.told or (soon and not never_starts(report.reason)):
            return
        job.told, job.told_at = message, time.monotonic()
        await states.tell_pending(self._worker.client, job.flow_run_id, message)
        self._log(job, message)

    async def _settle(self, job: Supervised, report: JobReport) -> None:
        client = self._worker.client
        run = await self._with_patience(job)
        if job.folder:
            remove_environment(job.folder)
        if run is None or run.infrastructure_pid not in (None, str(job.pid)):
            return
        receipt = read_receipt(job.folder) if job.folder else None
        verdict = judge(report, receipt, job.variables, await states.count_reschedules(client, run.id))
        done = await states.settle(client, run, verdict)
        logger = self._worker.get_flow_run_logger(run)
        logger.info("%s. The run was %s.", verdict.message, done)
        self._show_log(job, run, verdict)

    async def _with_patience(self, job: Supervised) -> FlowRun | None:
        """Read the run, waiting for an API that is away: its end must not get lost."""
        delay = 1.0
        while True:
            try:
                return await states.read_run(self._worker.client, job.flow_run_id)
            except Exception as error:
                self._worker._logger.warning("Job %s has ended, but the API does not answer: %s", job.pid, error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 60)

    def _show_log(self, job: Supervised, run: FlowRun, verdict: Verdict) -> None:
        # A run that began has told its own story; of one that never did, the job's log is all there is.
        expected = verdict.fate in {Fate.CANCELLED, Fate.RESCHEDULED} or (run.state and run.state.is_cancelling())
        if run.start_time is not None or job.folder is None or expected:
            return
        tail = log_tail(job.folder)
        words = f"The last lines of the job's log:\n{tail}" if tail else "The job left no log."
        self._worker.get_flow_run_logger(run).error("The run died before it reached the API. %s", words)

    async def _cancel_what_is_cancelled(self) -> None:
        for run in await self._cancelled_runs():
            job = self._jobs.get(run.id)
            if job is None:
                continue
            job.cancelling_since = job.cancelling_since or time.monotonic()
            report = self._poller.last_report(job.pid.job_id)
            patient = report is not None and not report.waiting
            if patient and time.monotonic() - job.cancelling_since < self._settings.cancel_grace_seconds:
                self._poller.hurry()
                continue
            await self._cancel(job)

    async def _cancelled_runs(self) -> list[FlowRun]:
        ids, runs = sorted(self._jobs), []
        for first in range(0, len(ids), _PAGE):
            wanted = {
                "id": {"any_": ids[first : first + _PAGE]},
                "state": {"type": {"any_": ["CANCELLING", "CANCELLED"]}},
            }
            runs += await self._worker.client.read_flow_runs(
                flow_run_filter=FlowRunFilter.model_validate(wanted), limit=_PAGE
            )
        return runs

    async def _cancel(self, job: Supervised) -> None:
        try:
            await self._slurm.cancel(job.pid.job_id)
        except SlurmUnavailable:
            return
        except PipelineError as error:
            self._log(job, f"The job cannot be cancelled: {error}")
        self._poller.hurry()

    def _log(self, job: Supervised, message: str) -> None:
        self._worker.get_flow_run_logger(job.run).info("%s", message)
