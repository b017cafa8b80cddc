"""Dask workers on every node of the Slurm job that the flow runs in, as one step of it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.scheduler import Scheduler
from distributed.security import Security

from deployments.workers.certificates import RunCertificates
from deployments.workers.node import (
    memory_limit,
    scheduler_options,
    worker_arguments,
    worker_environment,
    workers_on,
)
from tasks.contracts.cluster_profile import ClusterProfile, SrunDask
from tasks.contracts.errors import SettingsError
from tasks.contracts.exit_status import describe_exit
from tasks.slurm.job_folder import new_folder

_STEP = "srun"
_STOP_SECONDS = 20
# What a step needs to know of its job; the rest would be taken for options of srun, and contradict ours.
_KEPT = frozenset({"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTER_NAME"})


@dataclass(frozen=True)
class Allocation:
    """The Slurm job that this process runs in."""

    job_id: str
    nodes: int
    cpus_per_node: int
    memory_per_node: int | None
    """In bytes; None: not limited by Slurm."""


def allocation(environment: Mapping[str, str]) -> Allocation:
    """The job that ``environment`` tells of (sbatch's manual, output environment variables). Raises SettingsError."""
    job_id = environment.get("SLURM_JOB_ID")
    if job_id is None:
        raise SettingsError(
            "dask.kind is srun, but this process runs in no Slurm job: run the flow on the Slurm pool or with sbatch, "
            "or set dask.kind to slurm"
        )
    memory = int(environment.get("SLURM_MEM_PER_NODE", "0")) * 2**20
    nodes, cpus = environment.get("SLURM_JOB_NUM_NODES", "1"), environment.get("SLURM_CPUS_ON_NODE", "1")
    return Allocation(job_id, int(nodes), int(cpus), memory or None)


class SrunStep(ProcessInterface):
    """The step: one srun, and under it a ``dask worker`` on each node."""

    def __init__(
        self, scheduler: str, name: Any = None, *, arguments: list[str], env: dict[str, str], log: Path, **_: Any
    ) -> None:
        super().__init__(scheduler, name)
        self.scheduler, self.arguments, self.env, self.log = scheduler, arguments, env, log
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start srun."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments,
                self.scheduler,
                env=self.env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await super().start()

    async def close(self) -> None:
        """End the step; srun passes SIGTERM on, and its end is the end of its tasks."""
        if self.process is not None and self.process.returncode is None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(number)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.process.wait(), _STOP_SECONDS)
                    break
        await super().close()


class SrunWorkers(SpecCluster):
    """A Dask cluster of one step."""

    security: RunCertificates

    async def _close(self) -> None:
        await super()._close()
        self.security.forget()

    def explain(self) -> str:
        """What became of the step, for whoever waits for workers."""
        step: SrunStep = self.workers[_STEP]
        code = step.process.returncode if step.process else None
        state = "runs" if code is None else describe_exit(code)
        return (
            f"srun in this job {state}, and no worker has reached {self.scheduler_address}: see its log, {step.log}; "
            "if the nodes share another network, set dask.interface"
        )

    def hopeless(self) -> bool:
        """Whether the step has ended."""
        step: SrunStep = self.workers[_STEP]
        return step.process is not None and step.process.returncode is not None

    def paused(self) -> str:
        """Return an empty string: the step needs nobody who might be silent."""
        return ""


def srun_workers(profile: ClusterProfile, dask: SrunDask, run: UUID) -> SrunWorkers:
    """Start workers on all nodes of this job. Raises SettingsError outside of one."""
    job, network = allocation(os.environ), scheduler_options(dask)
    folder = new_folder(str(Path(profile.slurm.log_dir).expanduser() / "dask"), run)
    security = RunCertificates(folder.parent)
    step = {
        "arguments": [*_srun(job), *_dask_worker(dask, job, security)],
        "env": step_environment(profile),
        "log": folder / "job.log",
    }
    options = {"protocol": "tls://", "security": security, **network}
    return SrunWorkers(
        scheduler={"cls": Scheduler, "options": options},
        workers={_STEP: {"cls": SrunStep, "options": step}},
        security=security,
        name=f"dask-{run}",
    )


def _srun(job: Allocation) -> list[str]:
    """Beside the flow, which holds CPUs and memory of its node; one node's trouble is not the others'."""
    size = [f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1"]
    return ["srun", "--overlap", *size, f"--cpus-per-task={job.cpus_per_node}", "--mem=0", "--kill-on-bad-exit=0"]


def _dask_worker(dask: SrunDask, job: Allocation, security: Security) -> list[str]:
    count, tls = workers_on(dask, job.cpus_per_node), security.get_tls_config_for_role("worker")
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nanny"]
    command += ["--nworkers", str(count), "--nthreads", str(dask.threads_per_worker)]
    command += worker_arguments(dask, memory_limit(dask, job.memory_per_node, count))
    command += ["--interface", dask.interface] if dask.interface else []
    return [*command, "--tls-ca-file", tls["ca_file"], "--tls-cert", tls["cert"], "--tls-key", tls["key"]]


def step_environment(profile: ClusterProfile) -> dict[str, str]:
    """This process's environment without Slurm's options of the job, and with Prefect's settings."""
    inherited = {
        name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith(("SLURM_", "SRUN_"))
    }
    return {**inherited, **worker_environment(profile.slurm.env)}
