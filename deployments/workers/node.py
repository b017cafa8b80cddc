"""Command options, scheduler options and environment of workers on Slurm nodes."""

from collections.abc import Mapping
from typing import Any

from dask.utils import parse_bytes
from distributed.utils import get_ip_interface
from prefect.settings import get_current_settings

from tasks.contracts.cluster_profile import NodesDask
from tasks.contracts.errors import SettingsError
from tasks.contracts.job_variables import JobVariables

DEATH_SECONDS = 60
"""A worker exits after this time without its scheduler: the flow was killed, or the network does not connect them."""


def workers_per_node(dask: NodesDask, cpus: int) -> int:
    """Return the number of workers on a node where ``cpus`` CPUs are allocated."""
    return dask.workers or max(1, cpus // dask.threads_per_worker)


def memory_limit(dask: NodesDask, total: int | None, workers: int) -> str:
    """Return Dask's ``--memory-limit`` for each of the workers that share ``total`` bytes.

    Return ``auto`` if ``total`` is unknown: Dask then uses a share of the memory that processes may use there.
    """
    return dask.memory or (str(total // workers) if total else "auto")


def job_memory(job: JobVariables) -> int | None:
    """Return the bytes that a job of one node requests, or None for the default of the cluster."""
    if job.mem_per_cpu:
        return int(parse_bytes(_dask_memory(job.mem_per_cpu))) * (job.cpus_per_task or 1)
    return int(parse_bytes(_dask_memory(job.mem))) or None if job.mem else None


def worker_arguments(dask: NodesDask, limit: str) -> list[str]:
    """Return the options of ``dask worker`` that all kinds of nodes share."""
    arguments = ["--memory-limit", limit, "--local-directory", dask.local_directory, "--no-dashboard"]
    return [*arguments, "--death-timeout", str(DEATH_SECONDS)]


def scheduler_options(dask: NodesDask) -> dict[str, Any]:
    """Return the options of a scheduler in this process; scheduler and dashboard use free ports."""
    host = ""
    if dask.interface:
        try:
            host = get_ip_interface(dask.interface)
        except ValueError as error:
            raise SettingsError(f"dask.interface is {dask.interface!r}: {error}; name one of this host's") from None
    return {"dashboard_address": f"{host}:0", **({"interface": dask.interface} if dask.interface else {})}


def worker_environment(more: Mapping[str, str | None]) -> dict[str, str]:
    """Return this process's Prefect settings, including API address and key, merged with the profile's ``env``."""
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    return {name: value for name, value in {**env, **more}.items() if value is not None}


def _dask_memory(memory: str) -> str:
    """Convert Slurm's memory to Dask's notation: 64G is 64 GiB, a plain number is MiB (sbatch's manual, ``--mem``)."""
    return f"{memory}iB" if memory[-1].isalpha() else f"{memory}MiB"
