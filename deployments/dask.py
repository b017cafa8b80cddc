"""The task runner that a cluster profile gives."""

import logging
import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deployments.profiles import AddressDask, ClusterProfile, LocalDask

if TYPE_CHECKING:
    from prefect_dask import DaskTaskRunner

# By default a LocalCluster gives a worker up that takes more than 15 s to come back after a crash, and then
# waits for ever for workers that nobody starts; measured with Dask 2026.8.
_DASK_CONFIG = {
    "distributed.deploy.lost-worker-timeout": "1 hour",
    "distributed.scheduler.no-workers-timeout": "120s",
    # Workers that a job may take down before Dask gives up on it; innocent jobs on the same worker count them too.
    "distributed.scheduler.allowed-failures": 2,
    # Each worker would tell twenty lines of its birth and death; it reads this while it imports Dask.
    "distributed.nanny.pre-spawn-environ": {"DASK_LOGGING__DISTRIBUTED": "warning"},
}


def task_runner(profile: ClusterProfile) -> "DaskTaskRunner":
    """A Dask task runner for the profile. Its cluster starts with the first task that is submitted to it."""
    # Imported here: Dask takes a second to import, which --help should not wait for.
    import dask
    from prefect_dask import DaskTaskRunner

    dask.config.set(_DASK_CONFIG)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    if isinstance(profile.dask, AddressDask):
        return DaskTaskRunner(address=profile.dask.address)
    return DaskTaskRunner(cluster_class="distributed.LocalCluster", cluster_kwargs=_local_cluster(profile.dask))


def worker_count(profile: ClusterProfile) -> int:
    """How many tasks the profile's workers run at a time."""
    if isinstance(profile.dask, AddressDask):
        return profile.dask.workers
    return (profile.dask.workers or usable_cpus()) * profile.dask.threads_per_worker


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity, its control group's quota, its Slurm allocation."""
    limits = [len(os.sched_getaffinity(0)), _cgroup_quota(), os.environ.get("SLURM_CPUS_PER_TASK")]
    return max(1, min(int(limit) for limit in limits if limit))


def _local_cluster(dask: LocalDask) -> dict[str, Any]:
    return {
        "n_workers": dask.workers or usable_cpus(),
        "threads_per_worker": dask.threads_per_worker,
        "memory_limit": dask.memory or "auto",
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "local_directory": tempfile.gettempdir(),
        "silence_logs": logging.WARNING,
    }


def _cgroup_quota() -> int | None:
    """CPUs of a version 2 control group's ``cpu.max`` (microseconds of quota and period), rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else math.ceil(int(quota) / int(period))
