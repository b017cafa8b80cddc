"""The API is busy while a run is being submitted: no job exists yet, so the worker retries."""

import asyncio
from types import SimpleNamespace
from uuid import uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun, WorkPool

from deployments.slurm.configuration import SlurmJobConfiguration
from deployments.slurm.worker import SlurmWorker


class BusyClient:
    """A client that answers the first requests with an error status and later ones successfully."""

    def __init__(self, status: int, failures: int) -> None:
        self.status, self.failures, self.labels = status, failures, {}

    def _refuse(self) -> None:
        if self.failures:
            self.failures -= 1
            request = httpx.Request("PATCH", "http://127.0.0.1/api")
            raise httpx.HTTPStatusError("busy", request=request, response=httpx.Response(self.status, request=request))

    async def update_flow_run_labels(self, _flow_run_id, labels) -> None:
        self._refuse()
        self.labels = labels

    async def read_flow(self, flow_id):
        self._refuse()
        return SimpleNamespace(id=flow_id, name="nap", labels={})

    async def read_deployment(self, _deployment_id):
        return SimpleNamespace(job_variables={"env": {"A": "1"}}, id=uuid4(), name="d", updated=None)


def labelled(client: BusyClient) -> dict[str, str]:
    worker = SlurmWorker(work_pool_name="slurm")
    worker._client = client
    asyncio.run(worker._give_worker_labels_to_flow_run(uuid4()))
    return client.labels


def test_labels_are_given_again_after_a_503() -> None:
    assert labelled(BusyClient(503, failures=2))["prefect.worker.type"] == "slurm-sbatch"


def test_rejected_labels_are_not_repeated() -> None:
    client = BusyClient(422, failures=2)
    with pytest.raises(httpx.HTTPStatusError):
        labelled(client)
    assert client.failures == 1


def test_configuration_is_resolved_again_after_a_503_and_keeps_the_env_of_the_run() -> None:
    run = FlowRun(flow_id=uuid4(), deployment_id=uuid4(), job_variables={"env": {"B": "2"}})
    pool = WorkPool(
        name="slurm",
        type="slurm-sbatch",
        default_queue_id=uuid4(),
        base_job_template=SlurmWorker.get_default_base_job_template(),
    )
    resolving = SlurmJobConfiguration.resolve_for_flow_run(
        run, client=BusyClient(503, failures=1), work_pool=pool, worker_name="w"
    )
    env = asyncio.run(resolving).env
    assert env["A"] == "1" and env["B"] == "2"
