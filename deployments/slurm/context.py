"""The interface of a Slurm worker for its parts: API client, pool, loggers."""

import logging
from typing import Any, Protocol
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.logging.loggers import PrefectLogAdapter


class WorkerContext(Protocol):
    """The worker's interface for supervisor, adoption, leftovers and settlement."""

    name: str
    job_configuration: Any

    @property
    def client(self) -> PrefectClient:
        """Client of Prefect's API."""

    @property
    def work_pool(self) -> WorkPool:
        """Work pool that the worker serves."""

    @property
    def logger(self) -> logging.Logger | logging.LoggerAdapter[logging.Logger]:
        """Logger of the worker."""

    @property
    def submitting(self) -> set[UUID]:
        """Ids of the runs that are being submitted."""

    def get_flow_run_logger(self, flow_run: FlowRun) -> PrefectLogAdapter:
        """Return the logger of a flow run."""

    async def cluster(self) -> str:
        """Return the name of the Slurm cluster."""
