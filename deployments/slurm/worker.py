"""The worker of Slurm work pools: one job per flow run, watched by one poller, adopted again after a restart."""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import anyio.abc
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import InfrastructureError, InfrastructureNotAvailable, InfrastructureNotFound
from prefect.workers.base import BaseWorker, BaseWorkerResult

from deployments.slurm.adoption import Adoption
from deployments.slurm.configuration import SlurmJobConfiguration, SlurmVariables
from deployments.slurm.environment import remove_environment
from deployments.slurm.leftovers import Leftovers
from deployments.slurm.patience import ask_before_submission
from deployments.slurm.pid import JobPid
from deployments.slurm.poller import Pace, Poller
from deployments.slurm.settings import SlurmWorkerSettings
from deployments.slurm.states import read_run
from deployments.slurm.supervised import Supervised
from deployments.slurm.supervisor import Supervisor
from tasks.contracts.errors import PipelineError
from tasks.contracts.job_variables import JobVariables, notice_seconds
from tasks.slurm.client import Slurm, SlurmUnavailable
from tasks.slurm.job_folder import SCRIPT_FILE, job_in_queue, newest_folder, note_job_id


class NoLongerWanted(InfrastructureError):
    """The run was cancelled, or another worker took it, before its job was submitted."""


class SlurmWorkerResult(BaseWorkerResult):
    """The result of a job. The status is always 0, since the worker has already set the run's final state."""


class SlurmWorker(BaseWorker[SlurmJobConfiguration, SlurmVariables, SlurmWorkerResult]):
    """A Prefect worker that runs each flow run as a Slurm batch job."""

    type = "slurm-sbatch"
    job_configuration = SlurmJobConfiguration
    job_configuration_variables = SlurmVariables
    _display_name = "Slurm (sbatch)"
    _description = (
        "Run flows as Slurm batch jobs through sbatch, squeue, scontrol and scancel; needs no slurmrestd. "
        "Start the worker where Slurm's commands work."
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        settings = SlurmWorkerSettings()
        self._settings = settings
        self._slurm = Slurm(timeout=settings.command_timeout_seconds)
        self._sbatch = asyncio.Semaphore(settings.submit_concurrency)
        self._cluster: str | None = None
        pace = Pace(settings.poll_seconds, settings.poll_seconds_max, settings.lost_after_polls)
        self._poller = Poller(self._slurm, pace, self._logger)
        self._supervisor = Supervisor(self, self._slurm, self._poller, settings)
        self._adoption = Adoption(self, self._supervisor, self._slurm, settings)
        self._leftovers = Leftovers(self, self._slurm, self._adoption.variables)
        self._polling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start the worker and its poll loop."""
        await super().__aenter__()
        self._polling = asyncio.create_task(self._supervisor.poll_for_ever())
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        """Stop the worker and its poll loop. Jobs keep running, and the next worker adopts them."""
        try:
            await super().__aexit__(*exc_info)
        finally:
            if self._polling:
                self._polling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._polling

    async def sync_with_backend(self) -> None:
        """Send Prefect's heartbeat, adopt unwatched jobs of the pool, and sweep leftover secrets if due."""
        await super().sync_with_backend()
        if self._work_pool is None or self._runs_task_group is None:
            return
        self._runs_task_group.start_soon(self._leftovers.sweep_if_due)
        try:
            for job in await self._adoption.find():
                self._runs_task_group.start_soon(self._supervisor.see_to_its_end, job)
        except PipelineError as error:
            self._logger.warning("Running jobs cannot be adopted yet: %s", error)

    async def run(
        self,
        flow_run: FlowRun,
        configuration: SlurmJobConfiguration,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> SlurmWorkerResult:
        """Submit the run as a job and watch it until the end."""
        try:
            job = await self._submit(flow_run, configuration)
        except InfrastructureError as error:
            # Report it here: the base class would put a stack trace into the run's log.
            if not isinstance(error, NoLongerWanted):
                await self._propose_crashed_state(flow_run, str(error))
            if task_status:
                task_status.started(None)
            return SlurmWorkerResult(status_code=0, identifier="")
        if task_status:
            task_status.started(str(job.pid))
        await self._supervisor.see_to_its_end(job)
        return SlurmWorkerResult(status_code=0, identifier=str(job.pid))

    async def _initiate_run(self, flow_run: FlowRun, configuration: SlurmJobConfiguration) -> None:
        """Submit the run without waiting. The next heartbeat adopts the job."""
        job = await self._submit(flow_run, configuration)
        await self.client.update_flow_run(flow_run.id, infrastructure_pid=str(job.pid))

    async def kill_infrastructure(
        self, infrastructure_pid: str, configuration: SlurmJobConfiguration, grace_seconds: int = 30
    ) -> None:
        """Cancel a job. Slurm sends SIGTERM, and SIGKILL after the site's KillWait.

        Raises InfrastructureNotFound if Slurm does not know the job, InfrastructureNotAvailable if cancelling fails.
        """
        pid = JobPid.parse(infrastructure_pid)
        try:
            if pid.cluster != await self.cluster():
                raise InfrastructureNotAvailable(
                    f"Job {pid} is of another cluster than this worker's ({self._cluster})"
                )
            if await self._slurm.script_of(pid.job_id) is None:
                raise InfrastructureNotFound(f"Slurm knows no job {pid.job_id} any more")
            await self._slurm.cancel(pid.job_id)
        except PipelineError as error:
            raise InfrastructureNotAvailable(str(error)) from None
        self._poller.hurry()

    async def cluster(self) -> str:
        """Return the name of the cluster that this worker submits to. Raises SlurmUnavailable."""
        if self._cluster is None:
            self._cluster = await self._slurm.cluster_name()
        return self._cluster

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        # The base class calls this before the job exists, and crashes the run on any error.
        label = super()._give_worker_labels_to_flow_run
        await ask_before_submission(lambda: label(flow_run_id), self._logger.warning)

    @property
    def logger(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """Logger of the worker."""
        return self._logger

    @property
    def submitting(self) -> set[UUID]:
        """Ids of the runs that this worker is submitting."""
        return self._submitting_flow_run_ids

    async def _submit(self, flow_run: FlowRun, configuration: SlurmJobConfiguration) -> Supervised:
        folder: Path | None = None
        try:
            configuration.slurm = await self._with_timely_notice(flow_run, configuration.slurm)
            folder = configuration.write_files(flow_run.id)
            async with self._sbatch:
                cluster, job_id, late = await self._submit_once(flow_run, folder)
        except (PipelineError, OSError) as error:
            if folder:
                remove_environment(folder)
            raise InfrastructureError(f"The run cannot become a Slurm job: {error}") from None
        # The job exists now, so an error must not hide it. If the note fails, its script identifies the run.
        with contextlib.suppress(OSError):
            note_job_id(folder, job_id)
        if late:
            await self._give_up_if_taken(flow_run, folder, job_id)
        self.get_flow_run_logger(flow_run).info("Submitted as Slurm job %s; its files: %s", job_id, folder)
        return Supervised(flow_run, JobPid(cluster, job_id), folder, configuration.slurm)

    async def _with_timely_notice(self, flow_run: FlowRun, variables: JobVariables) -> JobVariables:
        """Return the variables with a notice that fits the time limit, including the site's default limit."""
        limit = None
        if variables.signal_lead_seconds and variables.time_limit is None:
            with contextlib.suppress(PipelineError):  # the submission itself retries
                limit = await self._slurm.default_time_limit(variables.partition)
        notice = notice_seconds(variables, limit)
        if notice == variables.signal_lead_seconds:
            return variables
        self.get_flow_run_logger(flow_run).info(
            "The flow gets SIGTERM %s s before the time limit, not %s s (signal_lead_seconds): at most a quarter of it",
            notice,
            variables.signal_lead_seconds,
        )
        return variables.filled_with({"signal_lead_seconds": notice})

    async def _submit_once(self, flow_run: FlowRun, folder: Path) -> tuple[str, int, bool]:
        """Submit the script once. Retry while Slurm does not answer, unless the job is already in the queue.

        Returns the cluster, the job id, and whether an earlier call of sbatch got no answer. Raises SlurmUnavailable
        after ``submit_patience_seconds``, NoLongerWanted if the run is not pending any more.
        """
        delay, deadline = 1.0, asyncio.get_running_loop().time() + self._settings.submit_patience_seconds
        tried = False
        while True:
            try:
                cluster = await self.cluster()
                if tried and (job_id := job_in_queue(folder, await self._slurm.jobs_by_script())):
                    return cluster, job_id, True
                late, tried = tried, True
                return cluster, await self._slurm.submit(str(folder / SCRIPT_FILE)), late
            except SlurmUnavailable as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                self.get_flow_run_logger(flow_run).warning("Slurm does not answer; submitting again soon. %s", error)
            await asyncio.sleep(delay)
            await self._still_wanted(flow_run, folder)
            delay = min(delay * 2, self._settings.poll_seconds_max)

    async def _give_up_if_taken(self, flow_run: FlowRun, folder: Path, job_id: int) -> None:
        # While Slurm did not answer, another worker may have rescheduled the run.
        try:
            run = await read_run(self.client, flow_run.id)
        except Exception as error:
            self._logger.warning("Job %s: the API does not answer; its run is adopted later. %s", job_id, error)
            return
        again = run is None or run.state is None or run.state.is_scheduled()
        if again or newest_folder(str(folder.parents[1]), flow_run.id) != folder:
            with contextlib.suppress(PipelineError):
                await self._slurm.cancel(job_id, folder)
            raise NoLongerWanted(f"Slurm job {job_id} was cancelled: another worker has the run now")

    async def _still_wanted(self, flow_run: FlowRun, folder: Path) -> None:
        run = await ask_before_submission(lambda: read_run(self.client, flow_run.id), self._logger.warning)
        newest = newest_folder(str(folder.parents[1]), flow_run.id)
        if run is None or run.state is None or not run.state.is_pending() or newest != folder:
            remove_environment(folder)
            raise NoLongerWanted("Not submitted: the run is not waiting for this worker any more")
