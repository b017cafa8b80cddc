"""Two workers on one pool watch the same jobs: each end is reported once, each run rescheduled once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.slurm.pool import Pool

# The other worker must not treat a run as lost that a busy worker will submit; the tests' usual second is too short.
PATIENT = {"PREFECT_INTEGRATIONS_SLURM_WORKER_ORPHAN_SECONDS": "300"}


@pytest.fixture
def second_worker(pool: Pool) -> Iterator[Pool]:
    """The pool with a second worker."""
    second = replace(pool, worker=None)
    pool.kill_worker()
    pool.start_worker(**PATIENT)
    second.start_worker("second", **PATIENT)
    yield second
    second.kill_worker()
    pool.kill_worker()
    pool.start_worker()


def test_a_run_that_two_workers_watch_is_rescheduled_once(pool: Pool, second_worker: Pool, shared: Path) -> None:
    folders = [shared / str(number) for number in range(4)]
    for folder in folders:
        folder.mkdir()
    runs = [pool.submit("nap", {"folder": str(folder), "seconds": 300}, nodelist="c2") for folder in folders]
    pool.until_true(lambda: all((folder / "began").exists() for folder in folders))
    # The worker that did not submit the run adopts it.
    pool.until_true(lambda: all(" looks after Slurm job " in pool.logs(run_id) for run_id in runs))
    pool.slurm.down("c2")
    try:
        for run_id in runs:
            pool.wait(run_id, lambda run: run.state is not None and not run.state.is_running())
    finally:
        pool.slurm.resume("c2")
    for run_id in runs:
        assert pool.end(run_id, 180).state.is_completed()
        assert pool.attempts(run_id) == 2 and pool.history(run_id).count("AwaitingRetry") == 1
