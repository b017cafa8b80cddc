"""Parsing of Slurm's answers; tests/slurm tests a real Slurm."""

from pathlib import Path

import pytest

from tasks.contracts.errors import TransientError
from tasks.megatron import slurm

TRICKY = (
    "JobId=421 JobName=x JobState=COMPLETED UserId=root(0) GroupId=root(0) Priority=1 Nice=0 Account=vision QOS=(null) "
    "JobState=FAILED Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=3:0 "
    "RunTime=00:01:09 TimeLimit=04:00:00 NodeList=g1 NumNodes=1 StdErr=/runs/421.out StdOut=/runs/%j.out\n"
)
FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Return a function that installs stand-ins for Slurm's commands."""

    def answer(**scripts: str) -> None:
        for name, script in scripts.items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name).chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return answer


def test_fields_are_read_behind_a_name_that_may_hold_anything(commands, tmp_path):
    (tmp_path / "answer").write_text(TRICKY)
    commands(scontrol=f"cat {tmp_path}/answer")
    job = slurm.look(421)
    assert (job.state, job.reason, job.exit_code, job.restarts) == ("FAILED", "NonZeroExitCode", "3:0", 2)
    assert job.log == Path("/runs/421.out") and job.ended
    assert str(job) == (
        "Slurm job 421 is FAILED (reason NonZeroExitCode, exit 3:0, on g1, after 00:01:09, requeued 2 times)"
    )


def test_accounting_remembers_what_the_controller_forgot(commands):
    commands(scontrol=FORGOTTEN, sacct="echo 'CANCELLED by 1000|0:15|00:00:09|g1|None'")
    job = slurm.look(421)
    assert (job.state, job.exit_code, job.nodes, job.reason) == ("CANCELLED", "0:15", "g1", "")


@pytest.mark.parametrize("sacct", ["true", "echo 'Slurm accounting storage is disabled' >&2; exit 1"])
def test_job_that_nobody_remembers_is_lost(commands, sacct):
    commands(scontrol=FORGOTTEN, sacct=sacct)
    assert slurm.look(421).state == slurm.LOST


@pytest.mark.parametrize(
    "scripts",
    [
        {"scontrol": "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1"},
        {"scontrol": FORGOTTEN, "sacct": "echo 'Unable to connect to slurmdbd' >&2; exit 1"},
    ],
)
def test_daemon_that_is_down_says_nothing_about_a_job(commands, scripts):
    commands(**scripts)
    with pytest.raises(TransientError):
        slurm.look(421)
