"""With slurmdbd, enforced accounts and memory limits, on another layout."""

import re
from pathlib import Path

import pytest

from tests.slurm.pool import Pool


def test_the_account_counts(counted_pool: Pool, shared: Path) -> None:
    run = counted_pool.end(counted_pool.submit("nap", {"folder": str(shared)}, account="vision"))
    assert run.state and run.state.is_completed()


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"account": "nobody"}, "Invalid account or account/partition combination specified"),
        ({"account": "vision", "qos": "golden"}, "Invalid qos specification"),
    ],
)
def test_a_wrong_account_or_qos_is_crashed_with_the_reason(
    counted_pool: Pool, variables: dict[str, str], words: str
) -> None:
    run = counted_pool.end(counted_pool.command("true", **variables))
    assert run.state and run.state.is_crashed() and words in str(run.state.message)


def test_out_of_memory_tells_requested_and_used(counted_pool: Pool, shared: Path) -> None:
    eat = f"touch {shared}/began; x=$(head -c 400000000 /dev/zero | tr '\\\\0' x); sleep 1"
    run = counted_pool.end(counted_pool.command(f'bash -c "{eat}"', mem="60M"))
    assert run.state and run.state.is_crashed()
    # The page that exceeded the limit is not counted.
    used = re.search(r"ran out of memory \(requested 60M, used (\d+)M\)", str(run.state.message))
    assert used and 55 <= int(used[1]) <= 60, run.state.message


def test_cancelled_by_whom(counted_pool: Pool) -> None:
    run_id = counted_pool.command("sleep 300")
    counted_pool.slurm.command("scancel", str(counted_pool.running(run_id)))
    run = counted_pool.end(run_id)
    assert run.state and run.state.is_cancelled()
    assert "was cancelled by user 0" in str(run.state.message)


def test_a_job_that_slurmctld_has_forgotten_gets_its_true_end(counted_pool: Pool, shared: Path) -> None:
    run_id = counted_pool.until(shared / "go", 9)
    job = counted_pool.running(run_id)
    counted_pool.kill_worker()
    (shared / "go").touch()
    counted_pool.wait(run_id, lambda _: counted_pool.job_state(job) == "", 120)
    counted_pool.start_worker()
    assert "exit code 9" in str(counted_pool.end(run_id).state.message)


@pytest.mark.parametrize("on_time_limit", ["fail", "reschedule"])
def test_the_time_limit_gives_notice_first(counted_pool: Pool, shared: Path, on_time_limit: str) -> None:
    # The second attempt finds the first one's file and ends immediately.
    script = f"[ -e {shared}/began ] && exit 12; touch {shared}/began; trap 'touch {shared}/told; exit 1' TERM"
    run_id = counted_pool.command(
        f'bash -c "{script}; sleep 600 & wait"', time_limit="1", signal_lead_seconds=30, on_time_limit=on_time_limit
    )
    run = counted_pool.end(run_id, 150)
    assert (shared / "told").exists()
    if on_time_limit == "fail":
        assert run.state and run.state.is_failed() and counted_pool.attempts(run_id) == 1
        assert "before its time limit of 0:01:00" in str(run.state.message)
    else:
        assert "exit code 12" in str(run.state.message) and counted_pool.attempts(run_id) == 2
