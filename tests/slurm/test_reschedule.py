"""Jobs that Slurm ends early: the run is rescheduled and resumes, within limits, and never twice at once."""

from pathlib import Path

import pytest

from tests.slurm.pool import Pool


def began(shared: Path) -> bool:
    """Return whether the probe has begun."""
    return (shared / "began").exists()


# In partition lost, PreemptMode=CANCEL: Slurm does not requeue the job, although it asks for that.
@pytest.mark.parametrize(("partition", "requeue"), [("low", False), ("lost", True)])
def test_preempted_run_is_rescheduled_and_resumes(pool: Pool, shared: Path, partition: str, requeue: bool) -> None:
    nap = {"folder": str(shared), "seconds": 300}
    run_id = pool.submit("nap", nap, partition=partition, nodelist="c1", mem="0", requeue=requeue)
    pool.wait(run_id, lambda _: began(shared))
    (first,) = pool.jobs_of(run_id)
    urgent = pool.command("sleep 2", partition="cpu", nodelist="c1", exclusive=True)
    run = pool.wait(run_id, lambda r: r.state is not None and r.state.is_completed(), 120)
    assert pool.job_state(first) == "PREEMPTED"
    assert len(pool.jobs_of(run_id)) == 2 and run.run_count == 2
    pool.end(urgent)


@pytest.mark.parametrize("requeue", [False, True])
def test_node_failure_with_and_without_requeue(pool: Pool, shared: Path, requeue: bool) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300}, nodelist="c2", requeue=requeue)
    pool.wait(run_id, lambda _: began(shared))
    (first,) = pool.jobs_of(run_id)
    pool.slurm.down("c2")
    try:
        pool.wait(run_id, lambda r: r.state is not None and not r.state.is_running())
    finally:
        pool.slurm.resume("c2")
    run = pool.wait(run_id, lambda r: r.state is not None and r.state.is_completed(), 120)
    jobs = pool.jobs_of(run_id)
    assert (jobs == [first]) is requeue and len(jobs) == (1 if requeue else 2)
    assert run.state and len((shared / "began").read_text().split()) == 2


def test_max_reschedules_bounds_it(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300}, nodelist="c2", max_reschedules=0)
    pool.wait(run_id, lambda _: began(shared))
    pool.slurm.down("c2")
    try:
        run = pool.end(run_id)
    finally:
        pool.slurm.resume("c2")
    assert run.state and run.state.is_crashed() and len(pool.jobs_of(run_id)) == 1
    assert "max_reschedules (0)" in str(pool.read(run_id).state.message)
