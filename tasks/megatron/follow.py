"""Functions that follow a Slurm job to its end, or run a job's program in this process's allocation."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.contracts.errors import PipelineError, TransientError
from tasks.contracts.exit_status import describe_exit
from tasks.megatron import slurm
from tasks.megatron.environment import allocation_environment
from tasks.megatron.logs import logs_of, tail
from tasks.megatron.render import Submission

TAIL_LINES = 20
_LOST_AFTER_LOOKS = 3
_SPEAK_SECONDS = 60
_STEP_GRACE_SECONDS = 30


def follow(job_id: int, poll_seconds: float, say: Callable[[str], None]) -> slurm.Job:
    """Watch a job until it has ended; pass every state change, and sometimes the log's last line, to ``say``.

    If Slurm does not answer, poll again without a limit: its jobs keep running. This function never cancels a job.
    """
    voice = _Voice(say)
    known, lost = slurm.Job(job_id, "PENDING"), 0
    while True:
        job = _look(job_id, say)
        if job is not None and job.state == slurm.LOST:
            lost += 1
            if lost >= _LOST_AFTER_LOOKS:
                return replace(job, log=known.log)
        elif job is not None:
            known, lost = replace(job, log=job.log or known.log), 0
            voice.tell(known)
            if known.ended:
                return known
        time.sleep(poll_seconds)


@dataclass
class _Voice:
    say: Callable[[str], None]
    state: str = ""
    line: str = ""
    spoke: float = 0

    def tell(self, job: slurm.Job) -> None:
        line = last_line(job)
        fresh = line and line != self.line and time.monotonic() - self.spoke > _SPEAK_SECONDS
        if job.state == self.state and not fresh:
            return
        self.say(f"{job}: {line}" if line else str(job))
        self.state, self.line, self.spoke = job.state, line, time.monotonic()


def _look(job_id: int, say: Callable[[str], None]) -> slurm.Job | None:
    try:
        return slurm.look(job_id)
    except TransientError as error:
        say(f"Slurm does not answer, job {job_id} goes on: {error}")
        return None


def check_end(job: slurm.Job) -> None:
    """Raise PipelineError with state, reason and the log's last lines unless the job completed."""
    if job.state == "COMPLETED":
        return
    way_out = {
        "TIMEOUT": "ask for more time_limit, or launch again to go on from the newest checkpoint",
        "CANCELLED": "launch again to go on from the newest checkpoint",
        "PREEMPTED": "launch again to go on from the newest checkpoint",
        "NODE_FAIL": "launch again to go on from the newest checkpoint",
        "OUT_OF_MEMORY": "the job needs more memory than its nodes gave it",
        slurm.LOST: "Slurm does not remember it; its log and its checkpoints tell how far it came",
    }.get(job.state, "its log says why")
    words = last_words(job)
    raise PipelineError(f"{job}: {way_out}. Log {job.log}, its last lines:\n{words}" if words else f"{job}: {way_out}")


def last_words(job: slurm.Job) -> str:
    """Return the last lines of the job's own log and of its newest step's log: either may show why it ended."""
    logs = logs_of(job.job_id, job.log)
    words = {path.name: tail(path, TAIL_LINES) for path in (*logs[:1], *logs[-1:])}
    return "\n".join(f"{name}:\n{text}" for name, text in words.items() if text)


def last_line(job: slurm.Job) -> str:
    """Return the last line of the newest step's log, or of the job's own."""
    logs = logs_of(job.job_id, job.log)
    return tail(logs[-1], 1) if logs else ""


def run_in_allocation(submission: Submission, log: Path, poll_seconds: float, say: Callable[[str], None]) -> None:
    """Run the program with srun on this job's GPUs. Raises PipelineError with the last lines of its output.

    The step is terminated when this call ends, so a cancelled flow leaves nothing running on the GPUs.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            submission.command,
            env=allocation_environment(submission.job.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _watch(process, log, poll_seconds, say)
    finally:
        _end(process)
    if process.returncode:
        raise PipelineError(f"srun {describe_exit(process.returncode)}; its last lines:\n{tail(log, TAIL_LINES)}")


def _watch(process: subprocess.Popen[bytes], log: Path, poll_seconds: float, say: Callable[[str], None]) -> None:
    told, spoke = "", 0.0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(poll_seconds)
            return
        line = tail(log, 1)
        if line and line != told and time.monotonic() - spoke > _SPEAK_SECONDS:
            say(line)
            told, spoke = line, time.monotonic()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STEP_GRACE_SECONDS)
        process.kill()
        process.wait()


def step_log(folder: Path) -> Path:
    """Return the log of the program in an allocation: one file per Slurm job, so that a resumed job gets its own."""
    return folder / f"step-{os.environ.get('SLURM_JOB_ID', '0')}.out"


def step_logs(folder: Path) -> list[Path]:
    """Return the logs of all Slurm jobs that ran the program in this folder, oldest first."""
    return sorted(folder.glob("step-*.out"), key=lambda path: path.stat().st_mtime_ns)
