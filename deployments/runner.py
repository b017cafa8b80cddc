"""A Dask task runner that limits its wait for workers, and links its dashboard and report in the Prefect UI."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import distributed
from prefect import Task
from prefect.logging import get_run_logger
from prefect_dask import DaskTaskRunner
from prefect_dask.client import PrefectDaskClient
from prefect_dask.task_runners import PrefectDaskFuture

from tasks.contracts.errors import PipelineError
from tasks.io.files import write_bytes
from tasks.running.progress import show_link

REPORT_FILE = "dask-report.html"
_CHECK_SECONDS = 5.0


@runtime_checkable
class ExplainsWorkers(Protocol):
    """A cluster that can report why its workers do not start."""

    def explain(self) -> str:
        """Return the state of the workers in a sentence."""

    def can_never_start(self) -> bool:
        """Return whether no worker can start any more."""

    def pause_reason(self) -> str:
        """Return why the startup time does not count now, or an empty string if it does."""


class ClusterRunner(DaskTaskRunner):
    """A task runner that starts its cluster with the first task and raises PipelineError if no worker connects."""

    def __init__(
        self, *, jobs_at_once: int, report_folder: Path | None = None, startup_seconds: float = 60, **options: Any
    ) -> None:
        super().__init__(**options)
        self.jobs_at_once = jobs_at_once
        self.report_folder = report_folder
        self.startup_seconds = startup_seconds
        self._scheduler = ""
        self._no_worker_since: float | None = None
        self._paused = False

    @property
    def client(self) -> PrefectDaskClient:
        """The Dask client. Raises PipelineError if the scheduler cannot be reached or no worker connects in time."""
        client = self._client
        if client is None:
            client = self._connect()
            self._scheduler = _address(client)
            self._wait_for_worker(client)
            show_link("dask-dashboard", client.dashboard_link, f"Dask's dashboard; scheduler at {self._scheduler}")
            if self.report_folder:
                self._exit_stack.enter_context(_record_report(client, self.report_folder / REPORT_FILE))
        return client

    def submit(  # type: ignore[override]  # the library's own type is an overload, which no method here needs
        self, task: Task[..., Any], parameters: dict[str, Any], wait_for: Any = None, dependencies: Any = None
    ) -> PrefectDaskFuture[Any]:
        """Submit a task run to Dask.

        Unlike DaskTaskRunner, submit it as an impure function: for a pure one Dask hashes all parameters and Prefect's
        settings to find an equal call, and no two task runs are equal. Parameters that hold futures are not supported.
        """
        future = self.client.submit(
            task, parameters=parameters, wait_for=wait_for, dependencies=dependencies, return_type="state", pure=False
        )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=future.task_run_id)

    def cluster_failure(self) -> str | None:
        """Return why no task can run: the scheduler is gone, or had no worker for ``startup_seconds``; else None."""
        client = self.client
        if client.status != "running":  # a client that reconnects has lost its submitted tasks
            return f"the Dask scheduler at {self._scheduler} is gone"
        if _has_worker(client):
            self._no_worker_since = None
            return None
        if self._no_worker_since is None or self._check_paused():
            self._no_worker_since = time.monotonic()
        if time.monotonic() - self._no_worker_since < self.startup_seconds:
            return None
        where = f"no Dask worker was at {self._scheduler} for {self.startup_seconds:.0f} s"
        return f"{where}: {self._cluster.explain()}" if isinstance(self._cluster, ExplainsWorkers) else where

    def _wait_for_worker(self, client: PrefectDaskClient) -> None:
        """Wait for the first worker. Raises PipelineError if none connects in time, or as soon as none can start."""
        started = checked = time.monotonic()
        while not _has_worker(client):
            now = time.monotonic()
            started = now if self._check_paused() else started
            if isinstance(self._cluster, ExplainsWorkers) and now - checked > _CHECK_SECONDS:
                checked = now
                if self._cluster.can_never_start():
                    words = f"no Dask worker came to {_address(client)}, and none will"
                    raise PipelineError(f"{words}: {self._cluster.explain()}")
            if now - started > self.startup_seconds:
                raise PipelineError(_no_worker_error(client, self._cluster, self.startup_seconds))
            time.sleep(0.2)

    def _check_paused(self) -> bool:
        """Return whether the startup time does not count because Slurm does not answer; warn when that begins."""
        why = self._cluster.pause_reason() if isinstance(self._cluster, ExplainsWorkers) else ""
        if why and not self._paused:
            get_run_logger().warning("%s", why)
        self._paused = bool(why)
        return self._paused

    def _connect(self) -> PrefectDaskClient:
        try:
            return super().client
        except OSError as error:
            raise PipelineError(f"the Dask scheduler at {self.address} cannot be reached: {error}") from None


def _has_worker(client: PrefectDaskClient) -> bool:
    return bool(client.scheduler_info(n_workers=1)["workers"])


def _address(client: PrefectDaskClient) -> str:
    return str(client.scheduler.address) if client.scheduler else "an unknown address"


def _no_worker_error(client: PrefectDaskClient, cluster: Any, seconds: float) -> str:
    address = _address(client)
    why = (
        cluster.explain()
        if isinstance(cluster, ExplainsWorkers)
        else "start workers that connect to it, then run again"
    )
    return f"no Dask worker came to {address} within {seconds:.0f} s (dask.startup_seconds): {why}"


@contextlib.contextmanager
def _record_report(client: PrefectDaskClient, path: Path) -> Iterator[None]:
    """Write Dask's performance report on the block to ``path``, as one page that works offline.

    An interrupted run has no time to write a report.
    """
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / path.name
        report = distributed.performance_report(filename=str(page), mode="inline")
        with distributed.Client.as_current(client):
            report.__enter__()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        _save_report(client, report, page, path)
        if failure is not None:
            raise failure


def _save_report(client: PrefectDaskClient, report: distributed.performance_report, page: Path, path: Path) -> None:
    try:
        with distributed.Client.as_current(client):
            report.__exit__(None, None, None)
        write_bytes(path, page.read_bytes())
    except Exception as error:  # also if the scheduler died: a missing report must not fail the flow
        get_run_logger().warning("Dask's performance report could not be written: %s", error)
        return
    show_link("dask-report", path.as_uri(), f"Dask's performance report: {path}")
