"""The supervisor of jobs: reports Slurm's state to Prefect, cancels jobs of cancelled runs, settles ended jobs."""

import time
from collections.abc import Iterable
from uuid import UUID

from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun

from deployments.slurm import states
from deployments.slurm.context import WorkerContext
from deployments.slurm.leases import Leases
from deployments.slurm.poller import Poller
from deployments.slurm.settings import SlurmWorkerSettings
from deployments.slurm.settlement import settle_with_patience
from deployments.slurm.supervised import Supervised
from tasks.contracts.errors import PipelineError
from tasks.slurm.client import Slurm, SlurmUnavailable
from tasks.slurm.reasons import explain, never_starts
from tasks.slurm.reports import JobReport

_PAGE = 200
_QUIET_SECONDS = 60  # report alternating reasons at most this often


class Supervisor:
    """The supervisor of all jobs of one worker."""

    def __init__(self, worker: WorkerContext, slurm: Slurm, poller: Poller, settings: SlurmWorkerSettings) -> None:
        self._worker, self._slurm, self._poller, self._settings = worker, slurm, poller, settings
        self._jobs: dict[UUID, Supervised] = {}
        self._leases = Leases()

    def watches(self, flow_run_id: UUID) -> bool:
        """Return whether the run's job is being watched."""
        return flow_run_id in self._jobs

    async def see_to_its_end(self, job: Supervised) -> None:
        """Watch a job until it has ended, then set the final state of its run."""
        watched = self._jobs.get(job.flow_run_id)
        if watched is not None and watched.pid == job.pid:
            return
        self._jobs[job.flow_run_id] = job
        try:
            report = await self._poller.watch(job.pid.job_id, job.folder, lambda r: self._changed(job, r))
            await settle_with_patience(self._worker, job, report)
        finally:
            if self._jobs.get(job.flow_run_id) is job:
                del self._jobs[job.flow_run_id]

    async def poll_for_ever(self) -> None:
        """Poll Slurm and Prefect in an endless loop. Errors are logged and do not end it."""
        while True:
            try:
                await self._poller.poll()
                await self._hear_prefect()
            except Exception:
                # The API may be down for a while, and one bad response must not stop the watch over all jobs.
                self._worker.logger.exception("Looking after Slurm jobs failed; trying again.")
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

    async def _hear_prefect(self) -> None:
        """Read the watched runs from the server. Cancel jobs of cancelled or deleted runs; renew other runs' leases."""
        watched = dict(self._jobs)
        runs = await self._runs_of(watched)
        for run_id, job in watched.items():
            run = runs.get(run_id)
            if run is None:
                await self._cancel(job, "its flow run was deleted")
            elif run.state and (run.state.is_cancelling() or run.state.is_cancelled()):
                await self._cancel_in_time(job)
            elif self._waits_in_vain(job, run):
                await self._cancel(job, "its flow run is final", waiting_only=True)
            elif not await self._leases.renew(self._worker.client, run):
                self._log(job, "The deployment's concurrency limit has given this run's slot away")

    async def _runs_of(self, watched: Iterable[UUID]) -> dict[UUID, FlowRun]:
        ids, runs = sorted(watched), list[FlowRun]()
        for first in range(0, len(ids), _PAGE):
            wanted = FlowRunFilter.model_validate({"id": {"any_": ids[first : first + _PAGE]}})
            runs += await self._worker.client.read_flow_runs(flow_run_filter=wanted, limit=_PAGE)
        return {run.id: run for run in runs}

    async def _cancel_in_time(self, job: Supervised) -> None:
        # A running flow gets time to end by itself; a waiting job is cancelled at once.
        job.cancelling_since = job.cancelling_since or time.monotonic()
        report = self._poller.last_report(job.pid.job_id, job.folder)
        patient = report is not None and not report.waiting
        if patient and time.monotonic() - job.cancelling_since < self._settings.cancel_grace_seconds:
            self._poller.hurry()
        else:
            await self._cancel(job, "its flow run was cancelled")

    def _waits_in_vain(self, job: Supervised, run: FlowRun) -> bool:
        """Return whether the job still waits although its run is final, set so by another attempt or a person."""
        report = self._poller.last_report(job.pid.job_id, job.folder)
        if report is None or not report.waiting or run.state is None or not run.state.is_final():
            return False
        # After SIGTERM the process may have reported Crashed before Slurm requeued its job.
        return not (run.state.is_crashed() and job.restarts)

    async def _cancel(self, job: Supervised, reason: str, waiting_only: bool = False) -> None:
        try:
            await self._slurm.cancel(job.pid.job_id, job.folder, waiting_only)
        except SlurmUnavailable as error:
            self._log_once(job, f"The job will be cancelled as soon as Slurm answers ({reason}): {error}")
            return
        except PipelineError as error:
            self._log_once(job, f"The job cannot be cancelled: {error}")
        else:
            self._log_once(job, f"Slurm job {job.pid} is cancelled: {reason}")
        self._poller.hurry()

    def _log_once(self, job: Supervised, message: str) -> None:
        """Log a message once although every poll repeats it. The worker's log gets it too: a deleted run has none."""
        kind = message.partition(": ")[0]  # Slurm's text after the colon changes from poll to poll
        if kind != job.cancel_told:
            job.cancel_told = kind
            self._worker.logger.info("%s: %s", job.pid, message)
            self._log(job, message)

    def _log(self, job: Supervised, message: str) -> None:
        self._worker.get_flow_run_logger(job.run).info("%s", message)
