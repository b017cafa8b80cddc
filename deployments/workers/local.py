"""Dask workers on this machine."""

import logging
import os
import tempfile
from typing import Any

from dask.system import cpu_count

from tasks.contracts.cluster_profile import LocalDask


def local_cluster(dask: LocalDask) -> dict[str, Any]:
    """Return arguments of ``distributed.LocalCluster``.

    Anyone who can connect to a Dask scheduler can run code, and login nodes are shared. So scheduler and workers use
    TLS, with certificates that belong to this run and stay in memory.
    """
    return {
        "security": True,
        "protocol": "tls",
        "n_workers": dask.workers or usable_cpus(),
        "threads_per_worker": dask.threads_per_worker,
        "memory_limit": dask.memory or "auto",
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        "local_directory": tempfile.gettempdir(),
        "silence_logs": logging.WARNING,
    }


def usable_cpus() -> int:
    """Return how many CPUs this process may use: affinity and control groups as Dask reads them, and Slurm's limit."""
    allocated = os.environ.get("SLURM_CPUS_PER_TASK")
    return max(1, min(cpu_count(), int(allocated) if allocated else cpu_count()))
