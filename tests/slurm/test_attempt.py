"""Checks whether a job may execute its run, and the exit status that matches the run's final state."""

from uuid import uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Failed, Pending, Running

from deployments.slurm.attempt import exit_status, superseded
from deployments.slurm.pid import JobPid

OWN = JobPid("a", 7)


def run(state: State, pid: str | None = None) -> FlowRun:
    return FlowRun(flow_id=uuid4(), state=state, infrastructure_pid=pid)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (Completed(), 0),
        (AwaitingRetry(), 0),
        (Running(), 0),
        (Failed(message="status code: 3"), 1),
        (Cancelled(), 1),
        (Crashed(message="the API was away"), 1),
        (Crashed(message="Process exited with status code: 3. Unknown."), 3),
        (Crashed(message="Process exited with status code: -11. Unknown."), 139),
    ],
)
def test_exit_status_mirrors_the_state(state: State, code: int) -> None:
    assert exit_status(run(state)) == code


@pytest.mark.parametrize("state", [Completed(), Failed(), Cancelled(), Crashed()])
def test_final_run_is_not_executed_again(state: State) -> None:
    assert f"is already {state.name}" in str(superseded(run(state), own=OWN, restarts=0))


def test_run_that_crashed_before_slurm_requeued_its_job_is_executed() -> None:
    assert superseded(run(Crashed()), own=OWN, restarts=1) is None
    assert "Completed" in str(superseded(run(Completed()), own=OWN, restarts=1))


@pytest.mark.parametrize(
    ("pid", "fenced"), [(None, False), ("a:6", False), ("a:7", False), ("a:8", True), ("b:8", False)]
)
def test_run_of_a_later_job_is_not_executed(pid: str | None, fenced: bool) -> None:
    why = superseded(run(Pending(), pid), own=OWN, restarts=0)
    assert (why is not None) is fenced
    assert not fenced or "belongs to Slurm job 8 now" in str(why)
