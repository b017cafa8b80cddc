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
    workers_per_node,
)
from tasks.contracts.cluster_profile import ClusterProfile, SrunDask
from tasks.contracts.errors import SettingsError
from tasks.contracts.exit_status import describe_exit
from tasks.slurm.job_folder import new_folder

_STEP = "srun"
_STOP_SECONDS = 20
# What srun needs to find its job. It reads all other SLURM_ variables as options, which would contradict ours.
_KEPT_VARIABLES = frozenset({"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTER_NAME"})


@dataclass(frozen=True)
class Allocation:
    """The Slurm job that this process runs in."""

    job_id: str
    nodes: int
    cpus_per_node: int
    memory_per_node: int | None
    """In bytes; None if Slurm sets no limit."""


def read_allocation(environment: Mapping[str, str]) -> Allocation:
    """Read the job from ``environment`` (sbatch's manual, output environment variables). Raises SettingsError."""
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
    """A Slurm step: one srun process that runs a ``dask worker`` on each node."""

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
        """Stop the step; srun forwards SIGTERM to its tasks, and Slurm kills tasks whose srun is gone."""
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
        """Return the state of the step, for an error about missing workers."""
        step: SrunStep = self.workers[_STEP]
        code = step.process.returncode if step.process else None
        state = "runs" if code is None else describe_exit(code)
        return (
            f"srun in this job {state}, and no worker has reached {self.scheduler_address}: see its log, {step.log}; "
            "if the nodes share another network, set dask.interface"
        )

    def can_never_start(self) -> bool:
        """Return whether the step has ended."""
        step: SrunStep = self.workers[_STEP]
        return step.process is not None and step.process.returncode is not None

    def pause_reason(self) -> str:
        """Return an empty string: a running step does not depend on slurmctld."""
        return ""


def srun_workers(profile: ClusterProfile, dask: SrunDask, run: UUID) -> SrunWorkers:
    """Start workers on all nodes of this job. Raises SettingsError outside a Slurm job."""
    job, network = read_allocation(os.environ), scheduler_options(dask)
    folder = new_folder(str(Path(profile.slurm.log_dir).expanduser() / "dask"), run)
    security = RunCertificates(folder.parent)
    step = {
        "arguments": [*_srun_command(job), *_worker_command(dask, job, security)],
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


def _srun_command(job: Allocation) -> list[str]:
    """Return the srun command. Its step overlaps the flow's own; one failed node does not stop the others."""
    size = [f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1"]
    return ["srun", "--overlap", *size, f"--cpus-per-task={job.cpus_per_node}", "--mem=0", "--kill-on-bad-exit=0"]


def _worker_command(dask: SrunDask, job: Allocation, security: Security) -> list[str]:
    count, tls = workers_per_node(dask, job.cpus_per_node), security.get_tls_config_for_role("worker")
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nanny"]
    command += ["--nworkers", str(count), "--nthreads", str(dask.threads_per_worker)]
    command += worker_arguments(dask, memory_limit(dask, job.memory_per_node, count))
    command += ["--interface", dask.interface] if dask.interface else []
    return [*command, "--tls-ca-file", tls["ca_file"], "--tls-cert", tls["cert"], "--tls-key", tls["key"]]


def step_environment(profile: ClusterProfile) -> dict[str, str]:
    """Return this process's environment without the job's SLURM_ options, and with Prefect's settings."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or not name.startswith(("SLURM_", "SRUN_"))
    }
    return {**inherited, **worker_environment(profile.slurm.env)}
