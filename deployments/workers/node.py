"""What workers on Slurm nodes have in common: their command, their scheduler's options, their environment."""

from collections.abc import Mapping
from typing import Any

from dask.utils import parse_bytes
from distributed.utils import get_ip_interface
from prefect.settings import get_current_settings

from tasks.contracts.cluster_profile import NodesDask
from tasks.contracts.errors import SettingsError
from tasks.contracts.job_variables import JobVariables

DEATH_SECONDS = 60
"""A worker that cannot reach its scheduler for so long ends: the flow was killed, or never was to be reached."""


def workers_on(dask: NodesDask, cpus: int) -> int:
    """Workers on a node of which ``cpus`` are ours."""
    return dask.workers or max(1, cpus // dask.threads_per_worker)


def memory_limit(dask: NodesDask, total: int | None, workers: int) -> str:
    """Dask's ``--memory-limit`` of each of the workers that share ``total`` bytes.

    auto, where that is unknown: a share of the memory that the node's processes may use.
    """
    return dask.memory or (str(total // workers) if total else "auto")


def job_memory(job: JobVariables) -> int | None:
    """Bytes that a job of one node asks for; None if that is left to the site."""
    if job.mem_per_cpu:
        return int(parse_bytes(_binary(job.mem_per_cpu))) * (job.cpus_per_task or 1)
    return int(parse_bytes(_binary(job.mem))) or None if job.mem else None


def worker_arguments(dask: NodesDask, limit: str) -> list[str]:
    """Options of ``dask worker`` that hold for every kind of node."""
    arguments = ["--memory-limit", limit, "--local-directory", dask.local_directory, "--no-dashboard"]
    return [*arguments, "--death-timeout", str(DEATH_SECONDS)]


def scheduler_options(dask: NodesDask) -> dict[str, Any]:
    """Options of a scheduler in this process; a free port each for scheduler and dashboard."""
    host = ""
    if dask.interface:
        try:
            host = get_ip_interface(dask.interface)
        except ValueError as error:
            raise SettingsError(f"dask.interface is {dask.interface!r}: {error}; name one of this host's") from None
    return {"dashboard_address": f"{host}:0", **({"interface": dask.interface} if dask.interface else {})}


def worker_environment(more: Mapping[str, str | None]) -> dict[str, str]:
    """Prefect's settings of this process, the API's address and key among them, and the profile's ``env``."""
    env = get_current_settings().to_environment_variables(exclude_unset=True)
    return {name: value for name, value in {**env, **more}.items() if value is not None}


def _binary(memory: str) -> str:
    """Slurm's memory as Dask reads it: 64G is 64 GiB, a number alone is MiB (sbatch's manual, ``--mem``)."""
    return f"{memory}iB" if memory[-1].isalpha() else f"{memory}MiB"
