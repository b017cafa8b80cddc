"""What the parts of a Slurm worker need of it: clients, the pool, loggers."""

import logging
from typing import Any, Protocol
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.logging.loggers import PrefectLogAdapter


class WorkerContext(Protocol):
    """A worker as supervisor, adoption and settlement see it."""

    name: str
    job_configuration: Any

    @property
    def client(self) -> PrefectClient:
        """The client of Prefect's API."""

    @property
    def work_pool(self) -> WorkPool:
        """The pool that the worker serves."""

    @property
    def logger(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """The worker's own log."""

    @property
    def submitting(self) -> set[UUID]:
        """Runs whose job is being submitted."""

    def get_flow_run_logger(self, flow_run: FlowRun) -> PrefectLogAdapter:
        """Return the log of a flow run."""

    async def cluster(self) -> str:
        """Return the name of the Slurm cluster."""
