"""Cancel from the UI and with scancel, on a real Slurm."""

import time
from pathlib import Path

import pytest

from tests.slurm.pool import Pool


def test_cancel_in_the_ui_ends_a_pending_job(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared)}, dependency="afterok:999999", extra_directives=["--hold"])
    pool.pending(run_id, "waits")
    pool.cancel(run_id)
    run = pool.end(run_id)
    assert run.state and run.state.is_cancelled()
    assert [pool.job_state(job) for job in pool.jobs_of(run_id)] == ["CANCELLED"]
    assert not (shared / "began").exists()


def test_cancel_in_the_ui_ends_a_running_flow_and_its_job(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300})
    pool.wait(run_id, lambda _: (shared / "began").exists())
    pool.cancel(run_id)
    run = pool.end(run_id)
    assert run.state and run.state.is_cancelled()
    (job,) = pool.jobs_of(run_id)
    pool.wait(run_id, lambda _: pool.job_state(job) not in {"RUNNING", "COMPLETING"})
    assert not (shared / "ended").exists()


def test_cancel_in_the_ui_ends_a_job_that_does_not_listen(pool: Pool, shared: Path) -> None:
    script = f"trap '' TERM; touch {shared}/began; sleep 300 & echo $! > {shared}/child; wait; sleep 300"
    run_id = pool.command(f'bash -c "{script}"')
    pool.wait(run_id, lambda _: (shared / "child").exists())
    pool.cancel(run_id)
    run = pool.end(run_id)
    assert run.state and run.state.is_cancelled()
    child = int((shared / "child").read_text())
    time.sleep(0.5)
    assert not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text()


@pytest.mark.parametrize("waits", [True, False])
def test_the_job_of_a_deleted_run_is_cancelled(pool: Pool, shared: Path, waits: bool) -> None:
    directives = ["--hold"] if waits else []
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300}, extra_directives=directives)
    if waits:
        pool.pending(run_id, "JobHeldUser")
    else:
        pool.wait(run_id, lambda _: (shared / "began").exists())
    (job,) = pool.jobs_of(run_id)
    with pool.client() as client:
        client.delete_flow_run(run_id)
    pool.until_true(lambda: pool.job_state(job) not in {"PENDING", "RUNNING", "COMPLETING"})
    assert pool.job_state(job) == "CANCELLED" and not (shared / "ended").exists()


def test_scancel_from_outside_is_cancelled_not_crashed(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300})
    pool.wait(run_id, lambda _: (shared / "began").exists())
    (job,) = pool.jobs_of(run_id)
    pool.slurm.command("scancel", str(job))
    run = pool.end(run_id)
    pool.wait(run_id, lambda r: r.state is not None and r.state.is_cancelled())
    assert f"Slurm job {job}" in str(pool.read(run_id).state.message) and len(pool.jobs_of(run.id)) == 1


def test_scancel_of_a_pending_job_is_cancelled(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared)}, extra_directives=["--hold"])
    pool.pending(run_id, "JobHeldUser")
    (job,) = pool.jobs_of(run_id)
    pool.slurm.command("scancel", str(job))
    run = pool.end(run_id)
    assert run.state and run.state.is_cancelled()
