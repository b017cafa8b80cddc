"""The verdict on a run, for every way in which a job can end."""

import pytest

from deployments.slurm.verdict import LOST, Fate, judge
from tasks.contracts.exit_status import describe_exit, name_signals
from tasks.contracts.job_variables import JobVariables
from tasks.slurm.reasons import explain, never_starts
from tasks.slurm.reports import JobReport, Receipt

PLAIN = JobVariables()


def receipt(exit_code: int = 0, signal: str = "", restarts: int = 0) -> Receipt:
    """Return an exit receipt of job 1."""
    return Receipt(elapsed=9, exit_code=exit_code, job_id=1, node="c1", restarts=restarts, signal=signal)


def job(state: str, **fields: object) -> JobReport:
    """Return a report of job 1 in a state."""
    return JobReport(1, state, nodes="c1", elapsed=9, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("report", "left", "fate", "words"),
    [
        (job("CANCELLED"), None, Fate.CANCELLED, "was cancelled"),
        (job("CANCELLED", cancelled_by="1000"), None, Fate.CANCELLED, "was cancelled by user 1000"),
        (job("CANCELLED"), receipt(1, "TERM"), Fate.CANCELLED, "was cancelled"),
        (job("PREEMPTED", signal=15), receipt(1, "TERM"), Fate.RESCHEDULED, "was preempted"),
        (job("NODE_FAIL"), None, Fate.RESCHEDULED, "its node failed"),
        (job("BOOT_FAIL"), None, Fate.RESCHEDULED, "did not boot"),
        (job("TIMEOUT", time_limit=60), None, Fate.FAILED, "time limit of 0:01:00"),
        (
            job("FAILED", exit_code=1, time_limit=60),
            receipt(1, "USR1"),
            Fate.FAILED,
            "was told to end before its time limit of 0:01:00",
        ),
        (job("OUT_OF_MEMORY", memory="50M", memory_used="49M"), None, Fate.CRASHED, "requested 50M, used 49M"),
        (job("FAILED", exit_code=1, step_signal=125, memory="50M"), None, Fate.CRASHED, "ran out of memory"),
        (job("FAILED", exit_code=3), receipt(3), Fate.CRASHED, "ended with exit code 3"),
        (job("FAILED", exit_code=139), receipt(139), Fate.CRASHED, "139 (SIGSEGV)"),
        (job("FAILED", signal=11), None, Fate.CRASHED, "signal 11 (SIGSEGV)"),
        (job("FAILED", signal=53), None, Fate.CRASHED, "cannot be opened on the node"),
        (job("FAILED", exit_code=1), receipt(1, "TERM"), Fate.CRASHED, "got SIGTERM from outside"),
        (job("COMPLETED"), receipt(), Fate.COMPLETED, "exit code 0"),
        (job("DEADLINE"), None, Fate.CRASHED, "deadline"),
        (job(LOST), receipt(), Fate.COMPLETED, "exit receipt says exit code 0"),
        (job(LOST), receipt(4), Fate.CRASHED, "exit receipt says exit code 4"),
        (job(LOST), receipt(1, "USR1"), Fate.FAILED, "no longer known"),
        (job(LOST), None, Fate.CRASHED, "left no exit receipt"),
    ],
)
def test_every_end_has_its_fate_and_its_cause(report: JobReport, left: Receipt | None, fate: Fate, words: str) -> None:
    verdict = judge(report, left, PLAIN, 0)
    assert verdict.fate is fate
    assert words in verdict.message


def test_a_job_ran_for_as_long_as_its_own_receipt_says() -> None:
    report = JobReport(1, "FAILED", nodes="c1", elapsed=167, exit_code=3)
    left = Receipt(elapsed=40, exit_code=3, job_id=1, node="c1", restarts=0, signal="")
    assert "after 0:00:40 " in judge(report, left, PLAIN, 0).message
    assert "after 0:02:47 " in judge(report, None, PLAIN, 0).message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-11, "was ended by SIGSEGV"),
        (-9, "was ended by SIGKILL"),
        (3, "ended with exit code 3"),
        (137, "ended with exit code 137 (SIGKILL)"),
    ],
)
def test_signals_have_names(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_signals_in_prefects_messages_get_names() -> None:
    assert name_signals("Process exited with status code: -11. Bad.") == "Process exited with SIGSEGV. Bad."
    assert name_signals("Process exited with status code: 1. Bad.") == "Process exited with status code: 1. Bad."


def test_at_the_time_limit_the_run_is_rescheduled_if_asked() -> None:
    assert judge(job("TIMEOUT"), None, JobVariables(on_time_limit="reschedule"), 0).fate is Fate.RESCHEDULED


def test_max_reschedules_bounds_every_reason() -> None:
    variables = JobVariables(max_reschedules=2, on_time_limit="reschedule")
    for state in ("PREEMPTED", "NODE_FAIL", "TIMEOUT"):
        assert judge(job(state), None, variables, 1).fate is Fate.RESCHEDULED
        assert judge(job(state), None, variables, 2).fate is Fate.CRASHED


@pytest.mark.parametrize("requeue", [False, True])
@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_run_of_a_job_that_slurm_did_not_requeue_is_rescheduled_whatever_was_set(state: str, requeue: bool) -> None:
    assert judge(job(state), None, JobVariables(requeue=requeue), 0).fate is Fate.RESCHEDULED


def test_the_receipt_of_an_earlier_restart_says_nothing_about_this_one() -> None:
    verdict = judge(job("FAILED", exit_code=1, restarts=1), receipt(1, "USR1", restarts=0), PLAIN, 0)
    assert verdict.fate is Fate.CRASHED and "time limit" not in verdict.message


@pytest.mark.parametrize(
    ("reason", "words", "never"),
    [
        ("Resources", "next in line", False),
        ("Priority", "jobs of higher priority", False),
        ("QOSMaxGRESPerUser", "a limit of the QOS is reached", False),
        ("QOSGrpCpuLimit", "a limit of the QOS is reached", False),
        ("AssocMaxJobsLimit", "a limit of the account is reached", False),
        ("QOSMaxCpuPerJobLimit", "more than the QOS allows one job", True),
        ("QOSMaxWallDurationPerJobLimit", "more than the QOS allows one job", True),
        ("PartitionTimeLimit", "ask for less time", True),
        ("DependencyNeverSatisfied", "a job it depends on failed", True),
        ("ReqNodeNotAvail, UnavailableNodes:c2", "leave out nodelist", False),
        ("SomethingNew", "SomethingNew", False),
        ("", "has not looked at it yet", False),
    ],
)
def test_reasons(reason: str, words: str, never: bool) -> None:
    assert words in explain(reason, 7)
    assert never_starts(reason) is never
