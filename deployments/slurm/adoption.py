"""Adoption of jobs after a worker's restart: finds the jobs of the pool's unfinished runs."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.schemas.objects import FlowRun

from deployments.slurm import states
from deployments.slurm.context import WorkerContext
from deployments.slurm.environment import remove_environment
from deployments.slurm.pid import JobPid
from deployments.slurm.settings import SlurmWorkerSettings
from deployments.slurm.supervised import Supervised
from deployments.slurm.supervisor import Supervisor
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.client import Slurm
from tasks.slurm.job_folder import job_in_queue, newest_folder, note_job_id, noted_job_id


class Adoption:
    """A search for jobs that this worker does not watch yet."""

    def __init__(
        self, worker: WorkerContext, supervisor: Supervisor, slurm: Slurm, settings: SlurmWorkerSettings
    ) -> None:
        self._worker, self._supervisor, self._slurm, self._settings = worker, supervisor, slurm, settings

    async def find(self) -> list[Supervised]:
        """Return the jobs to watch from now on. Raises SlurmUnavailable if the cluster does not answer."""
        runs = [run for run in await self._unfinished_runs() if self._is_free(run)]
        if not runs:
            return []
        cluster, queue = await self._worker.cluster(), await self._slurm.jobs_by_script()
        jobs = [await self._adopt(run, cluster, queue) for run in runs]
        return [job for job in jobs if job is not None]

    async def _adopt(self, run: FlowRun, cluster: str, queue: Mapping[Path, int]) -> Supervised | None:
        variables = await self.variables(run)
        folder = newest_folder(variables.log_dir, run.id)
        job_id = _job_of(folder, queue) if folder else _job_of_pid(run, cluster)
        if job_id is None:
            if folder or not run.infrastructure_pid:
                await self._schedule_again(run, folder)
            return None
        pid = JobPid(cluster, job_id)
        # The run may have been submitted, watched or deleted meanwhile.
        fresh = await states.read_run(self._worker.client, run.id)
        if fresh is None or not self._is_free(fresh) or not _of_this_cluster(fresh, cluster):
            return None
        if fresh.infrastructure_pid != str(pid):
            await self._worker.client.update_flow_run(run.id, infrastructure_pid=str(pid))
        self._worker.get_flow_run_logger(run).info("Worker '%s' looks after Slurm job %s now", self._worker.name, pid)
        return Supervised(run, pid, folder, variables)

    async def _schedule_again(self, run: FlowRun, folder: Path | None) -> None:
        """Reschedule a run that has been pending for ``orphan_seconds`` without a job: it would wait forever."""
        state = run.state
        if state is None or not state.is_pending():
            return
        if (datetime.now(UTC) - state.timestamp).total_seconds() < self._settings.orphan_seconds:
            return
        if folder:
            remove_environment(folder)
        await states.reschedule(self._worker.client, run.id, "its worker ended before it became a Slurm job")

    async def variables(self, run: FlowRun) -> JobVariables:
        """Return the job variables of a run, or the defaults if they cannot be read."""
        try:
            configuration = await self._worker.job_configuration.resolve_for_flow_run(
                run, client=self._worker.client, work_pool=self._worker.work_pool, worker_name=self._worker.name
            )
        except Exception as error:
            self._worker.logger.warning("Job variables of run %s cannot be read, defaults are taken: %s", run.id, error)
            return JobVariables()
        return configuration.slurm

    async def _unfinished_runs(self) -> list[FlowRun]:
        wanted = {"state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}}}
        return await states.read_pool_runs(self._worker.client, self._worker.work_pool.name, wanted)

    def _is_free(self, run: FlowRun) -> bool:
        return run.id not in self._worker.submitting and not self._supervisor.watches(run.id)


def _job_of(folder: Path, queue: Mapping[Path, int]) -> int | None:
    """Return the noted job id of an attempt. If the worker was killed before noting it, search the queue."""
    job_id = noted_job_id(folder)
    if job_id is None and (job_id := job_in_queue(folder, queue)) is not None:
        note_job_id(folder, job_id)
    return job_id


def _job_of_pid(run: FlowRun, cluster: str) -> int | None:
    if not run.infrastructure_pid or not _of_this_cluster(run, cluster):
        return None
    return JobPid.parse(run.infrastructure_pid).job_id


def _of_this_cluster(run: FlowRun, cluster: str) -> bool:
    if not run.infrastructure_pid:
        return True
    try:
        return JobPid.parse(run.infrastructure_pid).cluster == cluster
    except ValueError:
        return False
