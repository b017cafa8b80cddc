"""How a run ends when its job ends, on a real Slurm."""

from pathlib import Path

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
