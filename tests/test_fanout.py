"""A task that raises on a Dask worker; what becomes of workers that die is in tests/flows/test_worker_loss.py."""

from collections import Counter

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter

from deployments.dask import task_runner
from deployments.profiles import ClusterProfile, LocalDask
from tasks.fanout import Outcome, run_each
from tests.raising_task import Job, raising

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_fault_of_the_program_is_the_outcome_of_its_job_alone(tmp_path):
    jobs = [Job(number=0, folder=tmp_path, raises=True), Job(number=1, folder=tmp_path)]
    profile = ClusterProfile(name="test", dask=LocalDask(workers=2))

    @flow(name="faulty")
    def faulty() -> tuple[str, list[Outcome[Job]]]:
        from prefect.runtime import flow_run

        with task_runner(profile) as runner:
            return str(flow_run.id), list(run_each(runner, raising, jobs, window=4))

    flow_run_id, outcomes = faulty()
    by_number = {outcome.job.number: outcome for outcome in outcomes}
    assert isinstance(by_number[0].error, ValueError)
    assert by_number[1].result == 1
    with get_client(sync_client=True) as client:
        only = FlowRunFilter.model_validate({"id": {"any_": [flow_run_id]}})
        states = {run.name: run.state_name for run in client.read_task_runs(flow_run_filter=only)}
    assert states == {"raising-0": "Failed", "raising-1": "Completed"}
    assert Counter((tmp_path / "ran").read_text(encoding="ascii").split()) == {"0": 1, "1": 1}
