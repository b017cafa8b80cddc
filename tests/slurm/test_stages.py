"""Stages as separate jobs: cancelled with their parent, failing with a clear message, never starved by it."""

from pathlib import Path
from uuid import UUID

from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun

from tests.slurm.pool import Pool


def children(pool: Pool, run_id: UUID) -> list[FlowRun]:
    """Return the runs that a run has started."""
    wanted = FlowRunFilter.model_validate({"parent_flow_run_id": {"any_": [run_id]}})
    with pool.client() as client:
        return list(client.read_flow_runs(flow_run_filter=wanted))


def test_cancelling_the_parent_cancels_the_job_of_its_stage(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("parent", {"folder": str(shared), "stage": "nap", "seconds": 300})
    pool.wait(run_id, lambda _: (shared / "began").exists(), 180)
    (child,) = children(pool, run_id)
    pool.cancel(run_id)
    assert pool.end(run_id).state.is_cancelled() and pool.end(child.id).state.is_cancelled()
    jobs = pool.jobs_of(run_id) + pool.jobs_of(child.id)
    assert len(jobs) == 2
    pool.until_true(lambda: all(pool.job_state(job) not in {"RUNNING", "COMPLETING"} for job in jobs))
    assert not (shared / "ended").exists() and not (shared / "went-on").exists()


def test_a_stage_that_refuses_ends_its_parent_with_the_sentence(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("parent", {"folder": str(shared), "stage": "refuse"})
    run = pool.end(run_id, 180)
    assert run.state and run.state.is_failed()
    assert f"refuse: its flow run is Failed: {shared}: 3 samples are there, 4 are wanted" in str(run.state.message)
    assert "Traceback" not in pool.logs(run_id) and not (shared / "went-on").exists()


def test_a_pool_limit_that_would_starve_the_stages_is_refused(pool: Pool, shared: Path) -> None:
    with pool.client() as client:
        client.update_work_pool(pool.name, WorkPoolUpdate(concurrency_limit=1))
    try:
        run_id = pool.submit("parent", {"folder": str(shared), "stage": "nap"})
        run = pool.end(run_id, 180)
    finally:
        with pool.client() as client:
            client.update_work_pool(pool.name, WorkPoolUpdate(concurrency_limit=None))
    assert run.state and run.state.is_failed() and not children(pool, run_id)
    assert f"raise its limit (prefect work-pool set-concurrency-limit {pool.name} 2)" in str(run.state.message)
