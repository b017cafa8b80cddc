"""Dask workers in Slurm jobs: dask-jobqueue's cluster with the batch script and error messages of the Slurm pool."""

import asyncio
import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from dask_jobqueue.slurm import SLURMCluster, SLURMJob
from distributed.deploy.spec import ProcessInterface

from deployments.slurm.environment import remove_environment, write_environment
from deployments.slurm.script import Job, environment_path, render
from deployments.slurm.settings import SlurmWorkerSettings
from deployments.slurm.verdict import duration
from deployments.workers.certificates import RunCertificates
from deployments.workers.node import (
    job_memory,
    memory_limit,
    scheduler_options,
    worker_arguments,
    worker_environment,
    workers_per_node,
)
from tasks.contracts.cluster_profile import ClusterProfile, SlurmDask, lifetime_seconds
from tasks.contracts.errors import PipelineError
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.client import Slurm, SlurmUnavailable
from tasks.slurm.job_folder import ENVIRONMENT_FILE, SCRIPT_FILE, job_in_queue, log_tail, new_folder
from tasks.slurm.reasons import explain, never_starts
from tasks.slurm.reports import QUEUE_FIELDS, JobReport, parse_squeue

CHECK_SECONDS = 10.0
"""Seconds between two checks of the jobs."""

EARLY_EXIT_SECONDS = 60
"""A job that ends sooner than this counts as an early exit; early exits are replaced a limited number of times."""

MAX_EARLY_EXITS = 3
"""Early exits per wanted job before no more jobs are submitted."""

_MAX_REPORTED_JOBS = 5


@dataclass
class WorkerJobContext:
    """Shared settings and state of one run's worker jobs. All jobs have the same name."""

    run: UUID
    variables: JobVariables
    folder: Path
    rejections: list[str] = field(default_factory=list)
    folders: dict[int, Path] = field(default_factory=dict)
    slurm: Slurm = field(default_factory=Slurm)
    patience: float = field(default_factory=lambda: SlurmWorkerSettings().submit_patience_seconds)
    unconfirmed: dict[Any, Job] = field(default_factory=dict)
    """Jobs by worker name that Slurm may or may not have accepted: it stopped answering during their submission."""
    outage: str = ""
    outage_since: float | None = None

    @property
    def name(self) -> str:
        """Name of every job in squeue."""
        return f"dask-{self.run}"

    def prepare(self) -> Job:
        """Create the folder of another job, with an environment file that its script deletes after reading it."""
        folder = new_folder(str(self.folder), self.run)
        write_environment(folder, worker_environment(self.variables.env))
        tag, path = f"dask:{self.run}:{folder.name}", environment_path(self.variables)
        return Job(name=self.name, tag=tag, folder=folder, command=(), path=path)

    def script(self, job: Job, command: str) -> str:
        """Return the batch script of a job of workers."""
        delete = f"rm -f {shlex.quote(str(job.folder / ENVIRONMENT_FILE))}"
        variables = self.variables.filled_with({"setup": [delete, *self.variables.setup]})
        return render(variables, replace(job, command=tuple(shlex.split(command))))

    async def submit(self, worker: Any, command: str) -> tuple[int, Job]:
        """Submit a worker's job, unless Slurm already accepted it without an answer; return its id and the job.

        Raises SlurmUnavailable, SlurmRefused, OSError.
        """
        with self._record_outage():
            before = self.unconfirmed.get(worker)
            number = job_in_queue(before.folder, await self.slurm.jobs_by_script()) if before else None
            if before is None or number is None:
                if before is not None:
                    remove_environment(before.folder)
                before = self.unconfirmed[worker] = self.prepare()
                script = before.folder / SCRIPT_FILE
                script.write_text(self.script(before, command), encoding="utf-8")
                number = await self.slurm.submit(str(script))
        del self.unconfirmed[worker]
        return number, before

    async def reports(self) -> dict[int, JobReport]:
        """Return slurmctld's reports of this run's jobs, by job id. Raises SlurmUnavailable, SlurmRefused."""
        mine = ("--name", self.name, "-u", str(os.getuid()))
        with self._record_outage():
            return parse_squeue(await self.slurm.run("squeue", "-h", "-t", "all", *mine, "-O", QUEUE_FIELDS))

    @property
    def outage_seconds(self) -> float:
        """Seconds since Slurm stopped answering; 0 if it answers."""
        return 0 if self.outage_since is None else time.monotonic() - self.outage_since

    @contextlib.contextmanager
    def _record_outage(self) -> Iterator[None]:
        try:
            yield
        except SlurmUnavailable as error:
            self.outage, self.outage_since = str(error), self.outage_since or time.monotonic()
            raise
        self.outage_since = None

    async def cancel(self, job_id: str) -> None:
        """Cancel a job; the name filter protects a later job that reuses the id."""
        await self.slurm.ask("scancel", "--name", self.name, job_id)

    async def cancel_all(self) -> None:
        """Cancel all remaining jobs, including one whose submission was not confirmed when the run ended."""
        await self.slurm.ask("scancel", "--name", self.name, "-u", str(os.getuid()))


class WorkerJob(SLURMJob):
    """One Slurm job of Dask workers."""

    def __init__(self, scheduler: Any = None, name: Any = None, *, context: WorkerJobContext, **options: Any) -> None:
        super().__init__(scheduler=scheduler, name=name, **options)
        self.context = context
        self.job: Job | None = None

    def job_script(self) -> str:
        """Return the batch script; the command comes from dask-jobqueue."""
        return self.context.script(self.job or self.context.prepare(), self._command_template)

    async def start(self) -> None:
        """Submit the job. Record a rejection: dask-jobqueue would only log it and wait forever.

        If Slurm does not answer, the job is submitted by the next check that gets an answer.
        """
        try:
            number, self.job = await self.context.submit(self.name, self._command_template)
            self.job_id = str(number)
            self.context.folders[number] = self.job.folder
        except SlurmUnavailable:
            pass
        except (PipelineError, OSError) as error:
            self.context.unconfirmed.pop(self.name, None)
            self.context.rejections.append(str(error))
        await ProcessInterface.start(self)

    async def close(self) -> None:
        """Cancel the job if it has not ended."""
        with contextlib.suppress(PipelineError):  # Slurm does not answer: the workers exit without their scheduler
            if self.job_id:
                await self.context.cancel(self.job_id)
        if self.job:
            remove_environment(self.job.folder)
        await ProcessInterface.close(self)


class SlurmWorkers(SLURMCluster):
    """A Dask cluster of Slurm jobs: ended jobs are replaced, and all jobs are cancelled when it closes."""

    security: RunCertificates

    def __init__(self, *, context: WorkerJobContext, jobs: int, **options: Any) -> None:
        self.context = context
        self._early_exits_left = MAX_EARLY_EXITS * jobs
        self._replace_loop: asyncio.Task[None] | None = None
        super().__init__(n_workers=0, job_cls=WorkerJob, context=context, **options)  # type: ignore[arg-type]
        self.scale(jobs=jobs)

    def explain(self) -> str:
        """Return the state of the jobs, for an error about missing workers."""
        return str(self.sync(self._explain))

    def can_never_start(self) -> bool:
        """Return whether no job runs, is pending, or will be submitted again."""
        return bool(self.sync(self._can_never_start))

    def pause_reason(self) -> str:
        """Return why the startup time does not count now: Slurm does not answer; else an empty string."""
        outage = self.context.outage_seconds
        if not 0 < outage < self.context.patience:
            return ""
        wait = f"Dask's workers wait for it, for {self.context.patience:.0f} s at most"
        return f"Slurm has not answered for {duration(int(outage))}; {wait}: {self.context.outage}"

    async def _start(self) -> None:
        await super()._start()
        self._replace_loop = self._replace_loop or asyncio.create_task(self._run_replace_loop())

    async def _close(self) -> None:
        if self._replace_loop:
            self._replace_loop.cancel()
        await super()._close()
        with contextlib.suppress(PipelineError):
            await self.context.cancel_all()
        self.security.forget()

    async def _run_replace_loop(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with contextlib.suppress(PipelineError):  # Slurm does not answer: the state of the jobs is unknown
                await self._replace_ended()

    async def _replace_ended(self) -> None:
        # Copied before the queue is read: a job submitted in between is missing from the answer, but has not ended.
        known = {name: int(job.job_id) if job.job_id else None for name, job in self.workers.items()}
        reports = await self.context.reports()
        for name, number in known.items():
            report = reports.get(number) if number else None
            if number is None or report is None or report.ended:
                self._drop_ended(name, report)
        await self._correct_state()

    def _drop_ended(self, name: Any, report: JobReport | None) -> None:
        """Drop an ended job, so that it is submitted again; keep it if too many jobs ended early."""
        if report is not None and (report.elapsed or 0) < EARLY_EXIT_SECONDS:
            if self._early_exits_left <= 0:
                return
            self._early_exits_left -= 1
        self.workers.pop(name, None)

    async def _can_never_start(self) -> bool:
        try:
            reports = (await self.context.reports()).values()
        except PipelineError:
            return self.context.outage_seconds > self.context.patience
        if self.context.unconfirmed:  # Slurm answers again: the next check submits them
            return False
        live = [r for r in reports if not r.ended and not (r.waiting and never_starts(r.reason))]
        ended = [r for r in reports if r.ended]
        return not live and bool(self.context.rejections or reports) and not (ended and self._early_exits_left > 0)

    async def _explain(self) -> str:
        try:
            reports = list((await self.context.reports()).values())
        except PipelineError as error:
            outage = f" for {duration(int(self.context.outage_seconds))}" if self.context.outage_since else ""
            return f"Slurm has not answered{outage} about the jobs named {self.context.name}: {error}"
        sentences = [self._describe(report) for report in reports[-_MAX_REPORTED_JOBS:]]
        sentences += (
            [f"{len(reports) - _MAX_REPORTED_JOBS} jobs before these"] if len(reports) > _MAX_REPORTED_JOBS else []
        )
        sentences += [f"not submitted: {rejection}" for rejection in self.context.rejections[-1:]]
        return "; ".join(sentences) or f"no job named {self.context.name} was submitted yet"

    def _describe(self, report: JobReport) -> str:
        job = f"job {report.job_id} is {report.state}"
        if report.waiting:
            return f"{job}: {explain(report.reason, report.job_id)}"
        folder = self.context.folders.get(report.job_id)
        last = f"; its log, {folder}/job.log, ends with: {log_tail(folder, 1)}" if folder else ""
        if report.ended:
            return f"{job} (exit code {report.exit_code}, {report.reason or 'no reason given'}){last}"
        return (
            f"{job} on {report.nodes}, but no worker of it has reached {self.scheduler_address}: set dask.interface "
            f"to a network that the nodes share{last}"
        )


def slurm_workers(profile: ClusterProfile, dask: SlurmDask, run: UUID) -> SlurmWorkers:
    """Start a cluster of Slurm jobs for a flow run. Raises SettingsError if the log directory cannot be used."""
    variables = profile.worker_job(dask)
    folder = Path(variables.log_dir).expanduser() / "dask"
    context = WorkerJobContext(run, variables.filled_with({"job_name": None}), folder)
    options, count = scheduler_options(dask), workers_per_node(dask, variables.cpus_per_task or 1)
    # The last --memory-limit wins; dask-jobqueue passes its own first, computed from `memory`.
    extra = worker_arguments(dask, memory_limit(dask, job_memory(variables), count))
    lifetime = lifetime_seconds(dask, variables)
    if lifetime:
        extra += ["--lifetime", f"{lifetime}s", "--lifetime-stagger", f"{dask.lifetime_stagger_seconds}s"]
    return SlurmWorkers(
        context=context,
        jobs=dask.minimum_jobs or dask.jobs,
        name=context.name,
        cores=count * dask.threads_per_worker,
        processes=count,
        memory="1GiB",
        python="python",
        interface=dask.interface,
        worker_extra_args=extra,
        security=RunCertificates(folder / str(run)),
        protocol="tls://",
        scheduler_options=options,
        config_name="slurm",
    )
