"""Reports from real output of squeue, scontrol and sacct, stored in samples/ (Slurm 22.05)."""

from pathlib import Path

import pytest

from tasks.slurm.reports import JobReport, parse_default_time, parse_sacct, parse_scontrol, parse_squeue, seconds

SAMPLES = Path(__file__).parent / "samples"


def scontrol(name: str) -> JobReport:
    """Return the report from the scontrol line of a sample."""
    lines = (SAMPLES / f"{name}.txt").read_text().splitlines()
    found = [parse_scontrol(line) for line in lines if line.startswith("JobId=") and " MCS_label=" in line]
    assert found[0] is not None
    return found[0]


@pytest.mark.parametrize(
    ("name", "state", "reason", "exit_code", "signal", "restarts"),
    [
        ("running", "RUNNING", "", 0, 0, 0),
        ("pending_resources", "PENDING", "Resources", 0, 0, 0),
        ("pending_held", "PENDING", "JobHeldUser", 0, 0, 0),
        ("cancelled_pending", "CANCELLED", "Resources", 0, 0, 0),
        ("cancelled_running", "CANCELLED", "", 0, 15, 0),
        ("completing_after_scancel", "CANCELLED", "", 0, 15, 0),
        ("completed", "COMPLETED", "", 0, 0, 0),
        ("failed_exit3", "FAILED", "NonZeroExitCode", 3, 0, 0),
        ("failed_sigsegv", "FAILED", "JobLaunchFailure", 0, 11, 0),
        ("timeout", "TIMEOUT", "TimeLimit", 0, 15, 0),
        ("nodefail_requeued", "PENDING", "", 0, 0, 1),
        ("nodefail_slurmd_killed", "NODE_FAIL", "NodeDown", 0, 0, 0),
        ("preempted_norequeue", "PREEMPTED", "", 0, 15, 0),
        ("preempted_requeued", "PENDING", "BeginTime", 0, 0, 1),
        ("requeuehold", "PENDING", "job_requeued_in_held_state", 0, 0, 1),
        ("oom_cgroup", "OUT_OF_MEMORY", "OutOfMemory", 0, 125, 0),
    ],
)
def test_scontrol_samples(name: str, state: str, reason: str, exit_code: int, signal: int, restarts: int) -> None:
    report = scontrol(name)
    assert (report.state, report.reason, report.exit_code, report.signal, report.restarts) == (
        state,
        reason,
        exit_code,
        signal,
        restarts,
    )


def test_scontrol_gives_times_and_memory() -> None:
    report = scontrol("timeout")
    assert (report.elapsed, report.time_limit) == (89, 60)
    assert scontrol("oom_cgroup").memory == "50M"


def test_a_job_name_cannot_pass_for_a_state() -> None:
    line = "JobId=7 JobName=JobState=FAILED Restarts=9 UserId=x(1) Priority=1 JobState=RUNNING Reason=None ExitCode=0:0"
    assert parse_scontrol(line) == JobReport(7, "RUNNING")


def test_squeue_rows_decode_wait_statuses() -> None:
    text = (
        "12    |FAILED    |768   |0   |0 |0:01 |1:00:00 |1000M |c1 |NonZeroExitCode |/jobs/a|b/1/job.sh \n"
        "13    |FAILED    |256   |253 |0 |0:01 |UNLIMITED |50M |c1 |NonZeroExitCode |/jobs/1/job.sh \n"
        "14    |PENDING   |0     |0   |1 |0:00 |1-02:00:00 |1000M | |BeginTime |/jobs/1/job.sh \n"
    )
    reports = parse_squeue(text)
    assert (reports[12].exit_code, reports[12].signal, reports[12].script) == (3, 0, "/jobs/a|b/1/job.sh")
    assert (reports[13].exit_code, reports[13].step_signal, reports[13].time_limit) == (1, 125, None)
    assert (reports[14].waiting, reports[14].restarts, reports[14].time_limit) == (True, 1, 93600)


def test_squeue_rows_of_24_11_give_code_and_signal() -> None:
    text = (
        "3   |CANCELLED |0:15|0:0 |0 |0:02|1:00:00 |1000M |c1|None|(null)\n"
        "1   |FAILED    |3:0 |0:0 |0 |0:00|1:00:00 |1000M |c1|NonZeroExitCode |/jobs/1/job.sh \n"
        "2   |FAILED    |0:11|0:0 |0 |0:00|1:00:00 |1000M |c1|RaisedSignal:11(Segmentation fault) |/jobs/1/job.sh \n"
        "6   |FAILED    |1:0 |0:125 |0 |0:00|1:00:00 |1000M |c1|NonZeroExitCode |/jobs/1/job.sh \n"
    )
    reports = parse_squeue(text)
    assert [(r.exit_code, r.signal) for r in reports.values()] == [(0, 15), (3, 0), (0, 11), (1, 0)]
    assert reports[6].step_signal == 125


def test_sacct_tells_who_cancelled_and_what_was_used() -> None:
    text = (
        "5|CANCELLED by 1000|0:0|0:0|00:00:02|01:00:00|50M||c1|None\n"
        "5.batch|CANCELLED|0:15||00:00:02|||3K|c1|\n"
        "5.0|CANCELLED|0:15||00:00:02|||2M|c1|\n"
        "6_7|COMPLETED|0:0|0:0|00:00:02|01:00:00|50M||c1|None\n"
    )
    reports = parse_sacct(text)
    assert list(reports) == [5]
    assert (reports[5].state, reports[5].cancelled_by, reports[5].memory_used) == ("CANCELLED", "1000", "2M")


@pytest.mark.parametrize(
    ("text", "value"), [("0:01", 1), ("01:00:00", 3600), ("2-00:00:01", 172801), ("UNLIMITED", None), ("", None)]
)
def test_times(text: str, value: int | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("partitions", "limit"),
    [(None, 3600), ("brief", 120), ("cpu,brief", 120), ("lost", 86400), ("open", None), ("unknown", None)],
)
def test_default_time_limit_of_partitions(partitions: str | None, limit: int | None) -> None:
    rows = [
        "PartitionName=cpu AllowGroups=ALL Default=YES QoS=N/A DefaultTime=01:00:00 Hidden=NO MaxTime=1-00:00:00",
        "PartitionName=brief AllowGroups=ALL Default=NO QoS=N/A DefaultTime=00:02:00 Hidden=NO MaxTime=1-00:00:00",
        "PartitionName=lost AllowGroups=ALL Default=NO QoS=N/A DefaultTime=NONE Hidden=NO MaxTime=1-00:00:00",
        "PartitionName=open AllowGroups=ALL Default=NO QoS=N/A DefaultTime=NONE Hidden=NO MaxTime=UNLIMITED",
    ]
    assert parse_default_time("\n".join(rows) + "\n", partitions) == limit
