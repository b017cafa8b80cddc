"""Clean-up of secrets that a killed worker or flow left in a log directory: private keys, environment files."""

import asyncio
import contextlib
import shutil
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from deployments.slurm.context import WorkerContext
from deployments.slurm.environment import remove_environment
from deployments.slurm.states import read_pool_runs
from tasks.contracts.job_variables import JobVariables
from tasks.io.folder_lock import LOCK, NOTE, holder_of
from tasks.io.locks import exclusive
from tasks.slurm.client import Slurm
from tasks.slurm.job_folder import ENVIRONMENT_FILE, attempts_of, job_in_queue

SWEEP_SECONDS = 3600.0
"""Seconds between two sweeps of a worker; the first is at its start."""

_WINDOW = timedelta(days=30)
"""Flow runs that ended longer ago are ignored."""

_SILENT_SECONDS = 86_400.0
"""Seconds since the last heartbeat after which certificates from another host, or without a note, are deleted."""


class Leftovers:
    """A periodic sweep of the environment files of flow runs that ended unwatched."""

    def __init__(
        self, worker: WorkerContext, slurm: Slurm, variables: Callable[[FlowRun], Awaitable[JobVariables]]
    ) -> None:
        self._worker, self._slurm, self._variables = worker, slurm, variables
        self._due = 0.0
        self._log_dirs: dict[tuple[UUID | None, str | None], str] = {}

    async def sweep_if_due(self) -> None:
        """Sweep if the last sweep is SWEEP_SECONDS old. Log errors and retry at the next call."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + SWEEP_SECONDS
        try:
            await self._sweep()
        except Exception as error:
            self._due = 0.0
            self._worker.logger.warning("Secrets of ended jobs cannot be looked for yet: %s", error)

    async def _sweep(self) -> None:
        runs = await self._ended_runs()
        parents = [Path(await self._log_dir(run)).expanduser() / str(run.id) for run in runs]
        left = await asyncio.to_thread(_with_environment, parents)
        # Read after the folders, so that a job missing here has ended.
        queue = await self._slurm.jobs_by_script(live=True) if left else {}
        for folder in left:
            if job_in_queue(folder, queue) is None:
                remove_environment(folder)
        for log_dir in set(self._log_dirs.values()):
            await asyncio.to_thread(sweep_dask, Path(log_dir).expanduser() / "dask")

    async def _ended_runs(self) -> list[FlowRun]:
        wanted = {
            "state": {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]}},
            "end_time": {"after_": datetime.now(UTC) - _WINDOW},
        }
        return await read_pool_runs(self._worker.client, self._worker.work_pool.name, wanted)

    async def _log_dir(self, run: FlowRun) -> str:
        key = run.deployment_id, (run.job_variables or {}).get("log_dir")
        if key not in self._log_dirs:
            self._log_dirs[key] = (await self._variables(run)).log_dir
        return self._log_dirs[key]


def sweep_dask(folder: Path) -> None:
    """Delete the secrets of Dask clusters whose flow was killed. ``folder`` has one subfolder per flow run."""
    for certificates in folder.glob("*/tls-*"):
        if _is_abandoned(certificates):
            shutil.rmtree(certificates, ignore_errors=True)
    for environment in folder.glob(f"*/*/{ENVIRONMENT_FILE}"):
        # Certificates exist from before a cluster's first job until after its last.
        if not any(environment.parents[1].glob("tls-*")):
            with contextlib.suppress(OSError):
                environment.unlink()


def _with_environment(parents: list[Path]) -> list[Path]:
    return [folder for parent in parents for folder in attempts_of(parent) if (folder / ENVIRONMENT_FILE).exists()]


def _is_abandoned(certificates: Path) -> bool:
    """Return whether the flow that made the certificates is gone: False if the lock is held, or in doubt."""
    found = holder_of(certificates)
    try:
        with exclusive(certificates / LOCK, wait=False):
            if found and found[0].host == socket.gethostname():
                return not found[1]
            touched = (certificates / NOTE if found else certificates).stat().st_mtime
    except OSError:
        return False
    return time.time() - touched > _SILENT_SECONDS
