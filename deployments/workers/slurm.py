"""Dask workers in Slurm jobs: dask-jobqueue's cluster, with the batch script and the words of the Slurm pool."""

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
    workers_on,
)
from tasks.contracts.cluster_profile import ClusterProfile, SlurmDask, lifetime_seconds
from tasks.contracts.errors import PipelineError
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.client import Slurm, SlurmUnavailable
from tasks.slurm.job_folder import ENVIRONMENT_FILE, SCRIPT_FILE, job_in_queue, log_tail, new_folder
from tasks.slurm.reasons import explain, never_starts
from tasks.slurm.reports import QUEUE_FIELDS, JobReport, parse_squeue

LOOK_SECONDS = 10.0
"""Time between two looks at the jobs."""

YOUNG_SECONDS = 60
"""A job that ended sooner than this was broken; such are replaced only so often."""

YOUNG_ENDS = 3
"""Jobs, for each that is wanted, that may end young before no more are submitted."""

_TOLD = 5


@dataclass
class Site:
    """What the jobs of one run's workers share, and what became of them. All have the same name."""

    run: UUID
    variables: JobVariables
    folder: Path
    refusals: list[str] = field(default_factory=list)
    folders: dict[int, Path] = field(default_factory=dict)
    slurm: Slurm = field(default_factory=Slurm)
    patience: float = field(default_factory=lambda: SlurmWorkerSettings().submit_patience_seconds)
    unanswered: dict[Any, Job] = field(default_factory=dict)
    """Jobs by worker name that Slurm may have taken or not: it fell silent while they were submitted."""
    silence: str = ""
    silent_since: float | None = None

    @property
    def name(self) -> str:
        """Name of every job in squeue."""
        return f"dask-{self.run}"

    def prepare(self) -> Job:
        """Make the folder of one more job, with an environment file that its script deletes once it was read."""
        folder = new_folder(str(self.folder), self.run)
        write_environment(folder, worker_environment(self.variables.env))
        tag, path = f"dask:{self.run}:{folder.name}", environment_path(self.variables)
        return Job(name=self.name, tag=tag, folder=folder, command=(), path=path)

    def script(self, job: Job, command: str) -> str:
        """The batch script of a job of workers."""
        delete = f"rm -f {shlex.quote(str(job.folder / ENVIRONMENT_FILE))}"
        variables = self.variables.filled_with({"setup": [delete, *self.variables.setup]})
        return render(variables, replace(job, command=tuple(shlex.split(command))))

    async def submit(self, worker: Any, command: str) -> tuple[int, Job]:
        """Submit the job of a worker, unless Slurm has taken it before without an answer; return its id and folder.

        Raises SlurmUnavailable, SlurmRefused, OSError.
        """
        with self._notice_silence():
            before = self.unanswered.get(worker)
            number = job_in_queue(before.folder, await self.slurm.jobs_by_script()) if before else None
            if before is None or number is None:
                if before is not None:
                    remove_environment(before.folder)
                before = self.unanswered[worker] = self.prepare()
                script = before.folder / SCRIPT_FILE
                script.write_text(self.script(before, command), encoding="utf-8")
                number = await self.slurm.submit(str(script))
        del self.unanswered[worker]
        return number, before

    async def reports(self) -> dict[int, JobReport]:
        """The jobs that slurmctld knows. Raises SlurmUnavailable, SlurmRefused."""
        mine = ("--name", self.name, "-u", str(os.getuid()))
        with self._notice_silence():
            return parse_squeue(await self.slurm.run("squeue", "-h", "-t", "all", *mine, "-O", QUEUE_FIELDS))

    @property
    def silent_seconds(self) -> float:
        """How long Slurm has not answered; 0 if it does."""
        return 0 if self.silent_since is None else time.monotonic() - self.silent_since

    @contextlib.contextmanager
    def _notice_silence(self) -> Iterator[None]:
        try:
            yield
        except SlurmUnavailable as error:
            self.silence, self.silent_since = str(error), self.silent_since or time.monotonic()
            raise
        self.silent_since = None

    async def cancel(self, job_id: str) -> None:
        """Cancel a job; the name keeps another that got the same id since from harm."""
        await self.slurm.ask("scancel", "--name", self.name, job_id)

    async def cancel_all(self) -> None:
        """Cancel what is left, the job too that was being submitted when the run ended."""
        await self.slurm.ask("scancel", "--name", self.name, "-u", str(os.getuid()))


class WorkerJob(SLURMJob):
    """One Slurm job of Dask workers."""

    def __init__(self, scheduler: Any = None, name: Any = None, *, site: Site, **options: Any) -> None:
        super().__init__(scheduler=scheduler, name=name, **options)
        self.site = site
        self.job: Job | None = None

    def job_script(self) -> str:
        """The batch script; dask-jobqueue gives the command."""
        return self.site.script(self.job or self.site.prepare(), self._command_template)

    async def start(self) -> None:
        """Submit the job. A refusal is written down: dask-jobqueue would only log it, and wait for ever.

        While Slurm is silent nothing is submitted; the next look that it answers does it.
        """
        try:
            number, self.job = await self.site.submit(self.name, self._command_template)
            self.job_id = str(number)
            self.site.folders[number] = self.job.folder
        except SlurmUnavailable:
            pass
        except (PipelineError, OSError) as error:
            self.site.unanswered.pop(self.name, None)
            self.site.refusals.append(str(error))
        await ProcessInterface.start(self)

    async def close(self) -> None:
        """Cancel the job; one that has ended is fine."""
        with contextlib.suppress(PipelineError):  # Slurm is silent: its workers end without their scheduler
            if self.job_id:
                await self.site.cancel(self.job_id)
        if self.job:
            remove_environment(self.job.folder)
        await ProcessInterface.close(self)


class SlurmWorkers(SLURMCluster):
    """A Dask cluster of Slurm jobs: ended ones are replaced, and all are cancelled at the end."""

    security: RunCertificates

    def __init__(self, *, site: Site, jobs: int, **options: Any) -> None:
        self.site = site
        self._young_ends_left = YOUNG_ENDS * jobs
        self._keeper: asyncio.Task[None] | None = None
        super().__init__(n_workers=0, job_cls=WorkerJob, site=site, **options)  # type: ignore[arg-type]
        self.scale(jobs=jobs)

    def explain(self) -> str:
        """What became of the jobs, in a sentence for whoever waits for workers."""
        return str(self.sync(self._explain))

    def hopeless(self) -> bool:
        """Whether no job runs, waits for its turn, or will be submitted again."""
        return bool(self.sync(self._hopeless))

    def paused(self) -> str:
        """Return why time does not count now, in a sentence: Slurm is silent, and waited for; else an empty string."""
        silent = self.site.silent_seconds
        if not 0 < silent < self.site.patience:
            return ""
        wait = f"Dask's workers wait for it, for {self.site.patience:.0f} s at most"
        return f"Slurm has not answered for {duration(int(silent))}; {wait}: {self.site.silence}"

    async def _start(self) -> None:
        await super()._start()
        self._keeper = self._keeper or asyncio.create_task(self._keep())

    async def _close(self) -> None:
        if self._keeper:
            self._keeper.cancel()
        await super()._close()
        with contextlib.suppress(PipelineError):
            await self.site.cancel_all()
        self.security.forget()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with contextlib.suppress(PipelineError):  # Slurm is silent: nothing is known about any job
                await self._replace_ended()

    async def _replace_ended(self) -> None:
        # Read before the queue is: a job that is submitted in between is not in the answer, and not gone.
        known = {name: int(job.job_id) if job.job_id else None for name, job in self.workers.items()}
        reports = await self.site.reports()
        for name, number in known.items():
            report = reports.get(number) if number else None
            if number is None or report is None or report.ended:
                self._let_go(name, report)
        await self._correct_state()

    def _let_go(self, name: Any, report: JobReport | None) -> None:
        """Forget an ended job, so that it is submitted anew."""
        if report is not None and (report.elapsed or 0) < YOUNG_SECONDS:
            if self._young_ends_left <= 0:
                return
            self._young_ends_left -= 1
        self.workers.pop(name, None)

    async def _hopeless(self) -> bool:
        try:
            reports = (await self.site.reports()).values()
        except PipelineError:
            return self.site.silent_seconds > self.site.patience
        if self.site.unanswered:  # Slurm answers again: they are submitted at the next look
            return False
        live = [r for r in reports if not r.ended and not (r.waiting and never_starts(r.reason))]
        ended = [r for r in reports if r.ended]
        return not live and bool(self.site.refusals or reports) and not (ended and self._young_ends_left > 0)

    async def _explain(self) -> str:
        try:
            reports = list((await self.site.reports()).values())
        except PipelineError as error:
            silent = f" for {duration(int(self.site.silent_seconds))}" if self.site.silent_since else ""
            return f"Slurm has not answered{silent} about the jobs named {self.site.name}: {error}"
        told = [self._describe(report) for report in reports[-_TOLD:]]
        told += [f"{len(reports) - _TOLD} jobs before these"] if len(reports) > _TOLD else []
        told += [f"not submitted: {refusal}" for refusal in self.site.refusals[-1:]]
        return "; ".join(told) or f"no job named {self.site.name} was submitted yet"

    def _describe(self, report: JobReport) -> str:
        job = f"job {report.job_id} is {report.state}"
        if report.waiting:
            return f"{job}: {explain(report.reason, report.job_id)}"
        folder = self.site.folders.get(report.job_id)
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
    site = Site(run, variables.filled_with({"job_name": None}), folder)
    options, count = scheduler_options(dask), workers_on(dask, variables.cpus_per_task or 1)
    # The last --memory-limit counts; dask-jobqueue's own is a share of a sum that it must be told.
    extra = worker_arguments(dask, memory_limit(dask, job_memory(variables), count))
    lifetime = lifetime_seconds(dask, variables)
    if lifetime:
        extra += ["--lifetime", f"{lifetime}s", "--lifetime-stagger", f"{dask.lifetime_stagger_seconds}s"]
    return SlurmWorkers(
        site=site,
        jobs=dask.minimum_jobs or dask.jobs,
        name=site.name,
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
