"""Dask workers on this machine."""

import logging
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from tasks.contracts.cluster_profile import LocalDask


def local_cluster(dask: LocalDask) -> dict[str, Any]:
    """Arguments of ``distributed.LocalCluster``."""
    return {
        "n_workers": dask.workers or usable_cpus(),
        "threads_per_worker": dask.threads_per_worker,
        "memory_limit": dask.memory or "auto",
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "local_directory": tempfile.gettempdir(),
        "silence_logs": logging.WARNING,
    }


def usable_cpus() -> int:
    """CPUs that this process may use: its affinity, its control group's quota, its Slurm allocation."""
    limits = [len(os.sched_getaffinity(0)), _cgroup_quota(), os.environ.get("SLURM_CPUS_PER_TASK")]
    return max(1, min(int(limit) for limit in limits if limit))


def _cgroup_quota() -> int | None:
    """CPUs of a version 2 control group's ``cpu.max`` (microseconds of quota and period), rounded up."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else math.ceil(int(quota) / int(period))
