"""Final states of runs when their jobs end, on a real Slurm."""

from pathlib import Path

import pytest

from tests.slurm.pool import Pool


def test_a_flow_runs_as_a_job_and_completes(pool: Pool, shared: Path) -> None:
    run = pool.end(pool.submit("nap", {"folder": str(shared)}))
    assert run.state and run.state.is_completed()
    assert (shared / "ended").read_text() in {"c1", "c2"}
    assert "RUNNING on c" in pool.logs(run.id)


def test_exit_3_before_the_api_crashes_with_the_code_and_the_log(pool: Pool) -> None:
    run = pool.end(pool.command("bash -c 'echo the disk is gone; exit 3'"))
    assert run.state and run.state.is_crashed()
    assert "exit code 3" in str(run.state.message)
    pool.wait(run.id, lambda r: "the disk is gone" in pool.logs(r.id))


def test_segmentation_fault_is_named(pool: Pool) -> None:
    run = pool.end(pool.command("bash -c 'kill -SEGV $$'"))
    assert run.state and run.state.is_crashed()
    assert "SIGSEGV" in str(run.state.message)


@pytest.mark.parametrize(
    ("flow", "more", "state", "code"),
    [
        ("refuse", {}, "is_failed", "1:0"),
        ("fall", {"code": 3}, "is_crashed", "3:0"),
        ("fall", {}, "is_crashed", "139:0"),
        ("nap", {}, "is_completed", "0:0"),
    ],
)
def test_exit_status_of_the_job_mirrors_its_run(
    pool: Pool, shared: Path, flow: str, more: dict[str, int], state: str, code: str
) -> None:
    run_id = pool.submit(flow, {"folder": str(shared), **more})
    run = pool.end(run_id)
    (job,) = pool.jobs_of(run_id)
    pool.until_true(lambda: pool.job_state(job) in {"COMPLETED", "FAILED"})
    assert (pool.job_state(job) == "COMPLETED") is (state == "is_completed")
    assert pool.exit_code(job) == code
    pool.wait(run_id, lambda _: "The run was left as" in pool.logs(run_id))
    assert run.state and getattr(pool.read(run_id).state, state)()


def test_job_of_a_run_that_is_final_starts_nothing_when_it_is_released_without_a_worker(
    pool: Pool, shared: Path
) -> None:
    run_id = pool.submit("nap", {"folder": str(shared)}, extra_directives=["--hold"])
    pool.pending(run_id, "JobHeldUser")
    (job,) = pool.jobs_of(run_id)
    pool.kill_worker()
    try:
        pool.complete(run_id)
        pool.slurm.command("scontrol", "release", str(job))
        pool.until_true(lambda: pool.job_state(job) == "COMPLETED")
    finally:
        pool.start_worker()
    assert f"Nothing to execute: flow run {run_id} is already Completed." in pool.job_log(run_id)
    assert not (shared / "began").exists()


def test_waiting_job_of_a_run_that_is_final_is_cancelled(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared)}, extra_directives=["--hold"])
    pool.pending(run_id, "JobHeldUser")
    (job,) = pool.jobs_of(run_id)
    pool.complete(run_id)
    pool.until_true(lambda: pool.job_state(job) == "CANCELLED")
    pool.wait(run_id, lambda _: "is cancelled: its flow run is final" in pool.logs(run_id))
    assert pool.read(run_id).state.is_completed() and not (shared / "began").exists()


@pytest.mark.parametrize("variables", [{"time_limit": "2"}, {"partition": "brief"}])
def test_notice_as_long_as_the_time_limit_does_not_come_at_the_start(
    pool: Pool, shared: Path, variables: dict[str, str]
) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 12}, **variables)
    assert pool.end(run_id).state.is_completed()
    pool.wait(run_id, lambda _: "SIGTERM 30 s before the time limit, not 120 s" in pool.logs(run_id))
