"""The Dask task runner of a cluster profile."""

import logging
import os
import uuid
from pathlib import Path
from typing import Any

from tasks.contracts.cluster_profile import AddressDask, ClusterProfile, LocalDask, SlurmDask
from tasks.running.fanout import JobRunner

# By default a LocalCluster drops a worker that takes more than 15 s to restart after a crash, and then waits forever
# for workers that nothing starts (measured with Dask 2026.8).
_DASK_CONFIG = {
    "distributed.deploy.lost-worker-timeout": "1 hour",
    # How many workers may die under a job before Dask fails it. Other jobs on the same worker count these deaths too.
    "distributed.scheduler.allowed-failures": 2,
    # Adaptive scaling assumes this duration for a job of an unknown kind. The default, 0.5 s, is too short to scale up.
    "distributed.scheduler.unknown-task-duration": "60s",
}
# Without this each worker logs about twenty lines when it starts and stops; it is read while the worker imports Dask.
# Dask's own defaults stay: they keep OpenBLAS from starting threads on every core for one task at a time.
_WORKER_ENVIRONMENT = "distributed.nanny.pre-spawn-environ"
_PRELOAD = "distributed.worker.preload"
_LOCAL_STARTUP_SECONDS = 120


def task_runner(profile: ClusterProfile, report_folder: Path | None = None) -> JobRunner:
    """Create a Dask task runner for the profile. Its cluster starts when the first task is submitted.

    Dask's performance report is written to ``report_folder``. Raises SettingsError if the profile cannot be used here.
    """
    # Imported here: Dask takes a second to import, which --help should not wait for.
    import dask

    from deployments.runner import ClusterRunner

    seconds = getattr(profile.dask, "startup_seconds", _LOCAL_STARTUP_SECONDS)
    quiet = {**dask.config.get(_WORKER_ENVIRONMENT), "DASK_LOGGING__DISTRIBUTED": "warning"}
    preloaded = dict.fromkeys([*dask.config.get(_PRELOAD), "deployments.workers.quiet"])
    dask.config.set({**_DASK_CONFIG, _WORKER_ENVIRONMENT: quiet, _PRELOAD: list(preloaded)})
    logging.getLogger("distributed").setLevel(logging.WARNING)
    return ClusterRunner(
        jobs_at_once=worker_count(profile),
        report_folder=report_folder,
        startup_seconds=seconds,
        **_cluster_arguments(profile),
    )


def worker_count(profile: ClusterProfile) -> int:
    """Return how many tasks the profile's workers run at once. Raises SettingsError if it cannot be used here."""
    dask = profile.dask
    if isinstance(dask, AddressDask):
        return dask.workers
    if isinstance(dask, LocalDask):
        from deployments.workers.local import usable_cpus

        return (dask.workers or usable_cpus()) * dask.threads_per_worker
    from deployments.workers.node import workers_per_node
    from deployments.workers.srun import read_allocation

    if isinstance(dask, SlurmDask):
        return dask.jobs * workers_per_node(dask, profile.worker_job(dask).cpus_per_task or 1) * dask.threads_per_worker
    job = read_allocation(os.environ)
    return job.nodes * workers_per_node(dask, job.cpus_per_node) * dask.threads_per_worker


def _cluster_arguments(profile: ClusterProfile) -> dict[str, Any]:
    """Return the arguments of the task runner that select where its workers run."""
    dask = profile.dask
    if isinstance(dask, AddressDask):
        return {"address": dask.address}
    if isinstance(dask, LocalDask):
        from deployments.workers.local import local_cluster

        return {"cluster_class": "distributed.LocalCluster", "cluster_kwargs": local_cluster(dask)}
    from prefect.runtime import flow_run

    from deployments.workers.slurm import slurm_workers
    from deployments.workers.srun import srun_workers

    run = uuid.UUID(flow_run.id) if flow_run.id else uuid.uuid4()
    arguments: dict[str, Any] = {"profile": profile, "dask": dask, "run": run}
    if not isinstance(dask, SlurmDask):
        return {"cluster_class": srun_workers, "cluster_kwargs": arguments}
    bounds = {"minimum_jobs": dask.minimum_jobs, "maximum_jobs": dask.jobs, "interval": "5s"}
    adaptive = bounds if dask.minimum_jobs else None
    return {"cluster_class": slurm_workers, "cluster_kwargs": arguments, "adapt_kwargs": adaptive}
