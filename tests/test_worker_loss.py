"""Tasks that raise, and groups whose worker dies; tests/flows/test_worker_loss.py covers all other losses."""

import time
from collections import Counter
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

from deployments.dask import task_runner
from tasks.contracts.cluster_profile import ClusterProfile, LocalDask
from tasks.running.fanout import Outcome, run_each, run_jobs
from tests.worker_loss import DyingJob, dying, dying_groups

pytestmark = pytest.mark.usefixtures("prefect_server")


def run(
    jobs: list[DyingJob], workers: int = 2, size: int = 0
) -> tuple[dict[int, Outcome[DyingJob]], dict[str, str | None]]:
    """Return outcomes by job number, and each task run's last state by name. ``size``: of groups; 0 for none."""
    task_runs = -(-len(jobs) // size) if size else len(jobs)
    profile = ClusterProfile(name="test", dask=LocalDask(workers=workers), task_runs=task_runs)

    @flow(name="worker-loss")
    def losing() -> tuple[str, list[Outcome[DyingJob]]]:
        from prefect.runtime import flow_run

        with task_runner(profile) as runner:
            alone = run_each(runner, dying, jobs, window=4)
            together = run_jobs(runner, dying_groups, jobs, profile, stage="dying", unit="jobs", total=len(jobs))
            return str(flow_run.id), list(together if size else alone)

    flow_run_id, outcomes = losing()
    return {outcome.job.number: outcome for outcome in outcomes}, _states(flow_run_id)


def _states(flow_run_id: str) -> dict[str, str | None]:
    """Wait until no task run is Running, since the server learns of ends late; return each run's last state by name."""
    only = FlowRunFilter(id=FlowRunFilterId(any_=[UUID(flow_run_id)]))
    deadline, before = time.monotonic() + 60, {}
    while True:
        with get_client(sync_client=True) as client:
            states = {run.name: run.state_name for run in client.read_task_runs(flow_run_filter=only)}
        settled = states == before and not {"Running", "Pending"} & set(states.values())
        if settled or time.monotonic() > deadline:
            return states
        before = states
        time.sleep(2)


def test_fault_of_the_program_is_the_outcome_of_its_job_alone(tmp_path):
    outcomes, states = run([DyingJob(number=0, folder=tmp_path, way="raises"), DyingJob(number=1, folder=tmp_path)])
    assert isinstance(outcomes[0].error, ValueError)
    assert outcomes[1].result == 1
    assert states == {"dying-0": "Failed", "dying-1": "Completed"}
    ran = Counter((tmp_path / "ran").read_text(encoding="ascii").split())
    assert ran == {"0": 1, "1": 1}


def test_job_of_a_group_that_kills_its_worker_every_time_is_set_apart_and_its_neighbours_finish(tmp_path):
    jobs = [DyingJob(number=n, folder=tmp_path, way="killed always" if n == 2 else "well") for n in range(4)]
    outcomes, states = run(jobs, size=2)
    assert {n for n, outcome in outcomes.items() if outcome.error is not None} == {2}
    assert "job 2" in str(outcomes[2].error) and "worker died" in str(outcomes[2].error)
    ran = Counter((tmp_path / "ran").read_text(encoding="ascii").split())
    assert (ran["0"], ran["1"], ran["3"]) == (1, 1, 1)
    # The API may not know runs whose worker died, or not know their names.
    assert states["dying-0..1"] == states["dying-3"] == "Completed"
    assert "Running" not in states.values()
