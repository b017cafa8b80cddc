"""The worker is killed, the controller is down, many runs start at once: no run is lost or runs twice."""

import asyncio
import os
import time
from pathlib import Path

from tasks.slurm.client import Slurm, kept_environment
from tests.slurm.pool import Pool


def test_a_restarted_worker_adopts_jobs_in_every_state(pool: Pool, shared: Path) -> None:
    names = ("running", "ends_well", "ends_badly", "cancelled")
    folders = {name: shared / name for name in names}
    for folder in folders.values():
        folder.mkdir()
    held = pool.command("bash -c 'exit 4'", extra_directives=["--hold"])
    runs = {name: pool.submit("nap", {"folder": str(folders[name]), "seconds": 300}) for name in names[:2]}
    runs["ends_badly"] = pool.until(shared / "go", 5)
    runs["cancelled"] = pool.command("sleep 300")
    for run_id in runs.values():
        pool.running(run_id)
    pool.pending(held, "JobHeldUser")
    pool.kill_worker()
    (cancelled,) = pool.jobs_of(runs["cancelled"])
    pool.slurm.command("scancel", str(cancelled))
    (shared / "go").touch()
    (folders["ends_well"] / "stop").touch()
    for name, state in (("ends_badly", "FAILED"), ("ends_well", "COMPLETED")):
        (job,) = pool.jobs_of(runs[name])
        pool.wait(runs[name], lambda _, job=job, state=state: pool.job_state(job) == state)
    pool.start_worker()
    assert pool.end(runs["cancelled"]).state.is_cancelled()
    assert "exit code 5" in str(pool.end(runs["ends_badly"]).state.message)
    (folders["running"] / "stop").touch()
    pool.slurm.command("scontrol", "release", str(pool.jobs_of(held)[0]))
    assert "exit code 4" in str(pool.end(held).state.message)
    assert pool.end(runs["running"]).state.is_completed() and pool.end(runs["ends_well"]).state.is_completed()
    assert all(len(pool.jobs_of(run_id)) == 1 for run_id in (*runs.values(), held))


def test_stopping_a_worker_leaves_its_jobs_alone(pool: Pool, shared: Path) -> None:
    run_id = pool.until(shared / "go", 11)
    job = pool.running(run_id)
    assert pool.worker is not None
    pool.worker.terminate()
    pool.worker.wait(30)
    assert pool.job_state(job) == "RUNNING" and not pool.read(run_id).state.is_final()
    pool.start_worker()
    (shared / "go").touch()
    assert "exit code 11" in str(pool.end(run_id).state.message) and pool.jobs_of(run_id) == [job]


def test_a_worker_killed_in_the_middle_of_submitting_loses_and_doubles_nothing(pool: Pool) -> None:
    # Sites may forbid comments: a job must be matched to its run without them.
    drop: list[list[str]] = [["comment"], []] * 6
    runs = [pool.command("bash -c 'sleep 1; exit 6'", drop_directives=names) for names in drop]
    pool.wait(runs[0], lambda _: any(pool.jobs_of(run_id) for run_id in runs))
    pool.kill_worker()
    pool.start_worker()
    ends = [pool.end(run_id, 120) for run_id in runs]
    assert all("exit code 6" in str(run.state.message) for run in ends)
    assert [len(pool.jobs_of(run_id)) for run_id in runs] == [1] * 12


def test_a_silent_controller_is_never_job_gone(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 20})
    pool.wait(run_id, lambda _: (shared / "began").exists())
    pool.slurm.wait_saved()
    pool.slurm.stop_controller()
    try:
        waiting = pool.command("bash -c 'exit 7'")
        time.sleep(15)
        assert not pool.read(run_id).state.is_crashed() and not pool.read(waiting).state.is_final()
    finally:
        pool.slurm.start_controller()
    assert pool.end(run_id).state.is_completed()
    assert "exit code 7" in str(pool.end(waiting, 120).state.message)
    assert len(pool.jobs_of(run_id)) == len(pool.jobs_of(waiting)) == 1


def test_a_job_number_that_slurm_gives_out_twice_is_not_taken_for_the_first_job(pool: Pool, shared: Path) -> None:
    with pool.slurm.forgetting():
        forgotten = pool.until(shared / "go-first", 11)
        number = pool.running(forgotten)
        pool.kill_worker()
        (shared / "go-first").touch()
        pool.wait(forgotten, lambda _: pool.job_state(number) == "FAILED")
    second = pool.until(shared / "go", 7)
    pool.start_worker()
    pool.wait(second, lambda _: pool.jobs_of(second) == [number])
    message = str(pool.end(forgotten).state.message)
    assert "no longer known to Slurm; its exit receipt says exit code 11" in message
    late = Slurm(environment={**kept_environment(os.environ), **pool.slurm.environment})
    asyncio.run(late.cancel(number, pool.folder / "jobs" / str(forgotten) / "1"))
    assert pool.job_state(number) in {"PENDING", "CONFIGURING", "RUNNING"}
    (shared / "go").touch()
    assert "exit code 7" in str(pool.end(second).state.message)


def test_fifty_runs_at_once(pool: Pool) -> None:
    runs = [pool.command("bash -c 'exit 8'", cpus_per_task=1) for _ in range(50)]
    ends = [pool.end(run_id, 180) for run_id in runs]
    assert all("exit code 8" in str(run.state.message) for run in ends)
    assert sorted(len(pool.jobs_of(run_id)) for run_id in runs) == [1] * 50
