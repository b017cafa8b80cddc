"""Messages of final states and logs, on a real Slurm."""

import time
from pathlib import Path

from tests.slurm.pool import Pool


def job_log(pool: Pool, run_id: object) -> str:
    """Return the log of the run's only job."""
    return (pool.folder / "jobs" / str(run_id) / "1" / "job.log").read_text()


def test_a_signal_that_ends_the_flows_process_is_named(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("fall", {"folder": str(shared)})
    run = pool.wait(run_id, lambda run: "SIGSEGV" in (run.state.message or ""))
    assert run.state.is_crashed() and "status code: -11" not in run.state.message


def test_an_api_that_the_node_does_not_reach_is_a_sentence_and_no_trace(pool: Pool, shared: Path) -> None:
    env = {"PYTHONPATH": pool.python_path, "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    # The command that every job executes, with shorter timeouts.
    command = "from deployments.slurm import attempt as a; a.PATIENCE_SECONDS = 3; raise SystemExit(a.main())"
    run = pool.end(pool.command(f'python3 -c "{command}"', env=env), 180)
    assert "the job could not reach the Prefect API ([Errno 111] Connection refused)" in run.state.message
    assert f"the worker has PREFECT_API_URL={pool.url}" in run.state.message and "job.log" in run.state.message
    pool.wait(run.id, lambda _: "The run was Crashed" in pool.logs(run.id))
    assert "trying again" in job_log(pool, run.id)
    assert "Traceback" not in job_log(pool, run.id) + pool.logs(run.id)


def test_a_cancelled_job_says_so_once_while_slurm_is_silent(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300})
    pool.wait(run_id, lambda _: (shared / "began").exists())
    pool.slurm.wait_saved()
    pool.slurm.stop_controller()
    try:
        pool.cancel(run_id)
        pool.wait(run_id, lambda _: "will be cancelled as soon as Slurm answers" in pool.logs(run_id))
        time.sleep(6)  # several polls of the queue and the run
        told = [line for line in pool.logs(run_id).splitlines() if "will be cancelled" in line]
        assert len(told) == 1 and "its flow run was cancelled" in told[0]
    finally:
        pool.slurm.start_controller()
    assert pool.end(run_id).state.is_cancelled()


def test_the_log_of_a_job_that_was_terminated_names_the_signal(pool: Pool) -> None:
    run_id = pool.command("sleep 300")
    job = pool.running(run_id)
    pool.wait(run_id, lambda _: (pool.folder / "jobs" / str(run_id) / "1" / "job.log").exists())
    pool.slurm.command("scancel", "--batch", "--signal=TERM", str(job))
    run = pool.end(run_id)
    assert "got SIGTERM from outside and ended with exit code 143 (SIGTERM)" in run.state.message
    assert "The job got SIGTERM" in job_log(pool, run_id) and "[1]+" not in job_log(pool, run_id)
    pool.wait(run_id, lambda _: "The flow's process was ended by SIGTERM." in pool.logs(run_id))
