"""A Dask task runner that waits for workers only so long, and shows its dashboard and its report in the Prefect UI."""

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
_LOOK_SECONDS = 5.0


@runtime_checkable
class Explains(Protocol):
    """A cluster whose workers may not come."""

    def explain(self) -> str:
        """What became of them, in a sentence."""

    def hopeless(self) -> bool:
        """Whether waiting on is in vain."""

    def paused(self) -> str:
        """Return why time does not count now, in a sentence; an empty string if it does."""


class ClusterRunner(DaskTaskRunner):
    """Starts its cluster with the first task; fails in words when no worker comes."""

    def __init__(
        self, *, jobs_at_once: int, report_folder: Path | None = None, startup_seconds: float = 60, **options: Any
    ) -> None:
        super().__init__(**options)
        self.jobs_at_once = jobs_at_once
        self.report_folder = report_folder
        self.startup_seconds = startup_seconds
        self._scheduler = ""
        self._alone_since: float | None = None
        self._paused = False

    @property
    def client(self) -> PrefectDaskClient:
        """The Dask client. Raises PipelineError if there is no scheduler, or no worker in time."""
        client = self._client
        if client is None:
            client = self._connect()
            self._scheduler = _address(client)
            self._await_worker(client)
            show_link("dask-dashboard", client.dashboard_link, f"Dask's dashboard; scheduler at {self._scheduler}")
            if self.report_folder:
                self._exit_stack.enter_context(_reported(client, self.report_folder / REPORT_FILE))
        return client

    def submit(  # type: ignore[override]  # the library's own type is an overload, which no method here needs
        self, task: Task[..., Any], parameters: dict[str, Any], wait_for: Any = None, dependencies: Any = None
    ) -> PrefectDaskFuture[Any]:
        """Hand a task run to Dask.

        As DaskTaskRunner does it, but not as a pure function: Dask would digest all parameters and Prefect's settings
        to find out whether it has done this before, which no task run has. Parameters that hold futures are not for us.
        """
        future = self.client.submit(
            task, parameters=parameters, wait_for=wait_for, dependencies=dependencies, return_type="state", pure=False
        )
        return PrefectDaskFuture(wrapped_future=future, task_run_id=future.task_run_id)

    def cluster_failure(self) -> str | None:
        """Why no task can run any more: the scheduler is gone, or there was no worker for ``startup_seconds``."""
        client = self.client
        if client.status != "running":  # a client that connects again has lost all that was out
            return f"the Dask scheduler at {self._scheduler} is gone"
        if _has_worker(client):
            self._alone_since = None
            return None
        if self._alone_since is None or self._is_paused():
            self._alone_since = time.monotonic()
        if time.monotonic() - self._alone_since < self.startup_seconds:
            return None
        where = f"no Dask worker was at {self._scheduler} for {self.startup_seconds:.0f} s"
        return f"{where}: {self._cluster.explain()}" if isinstance(self._cluster, Explains) else where

    def _await_worker(self, client: PrefectDaskClient) -> None:
        """Return with the first worker. Raises PipelineError if none comes in time, or once none can come."""
        started = looked = time.monotonic()
        while not _has_worker(client):
            now = time.monotonic()
            started = now if self._is_paused() else started
            if isinstance(self._cluster, Explains) and now - looked > _LOOK_SECONDS:
                looked = now
                if self._cluster.hopeless():
                    words = f"no Dask worker came to {_address(client)}, and none will"
                    raise PipelineError(f"{words}: {self._cluster.explain()}")
            if now - started > self.startup_seconds:
                raise PipelineError(_nobody_came(client, self._cluster, self.startup_seconds))
            time.sleep(0.2)

    def _is_paused(self) -> bool:
        """Whether time does not count, because whoever starts the workers does not answer; warns when that begins."""
        why = self._cluster.paused() if isinstance(self._cluster, Explains) else ""
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


def _nobody_came(client: PrefectDaskClient, cluster: Any, seconds: float) -> str:
    address = _address(client)
    why = cluster.explain() if isinstance(cluster, Explains) else "start workers that connect to it, then run again"
    return f"no Dask worker came to {address} within {seconds:.0f} s (dask.startup_seconds): {why}"


@contextlib.contextmanager
def _reported(client: PrefectDaskClient, path: Path) -> Iterator[None]:
    """Write Dask's report on the block to ``path``: one page that needs nothing of the internet.

    A run that is ended from outside writes none: it has no time.
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
        _save(client, report, page, path)
        if failure is not None:
            raise failure


def _save(client: PrefectDaskClient, report: distributed.performance_report, page: Path, path: Path) -> None:
    try:
        with distributed.Client.as_current(client):
            report.__exit__(None, None, None)
        write_bytes(path, page.read_bytes())
    except Exception as error:  # whatever its scheduler died of: what is only shown must not end the work
        get_run_logger().warning("Dask's performance report could not be written: %s", error)
        return
    show_link("dask-report", path.as_uri(), f"Dask's performance report: {path}")
