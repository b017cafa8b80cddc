"""Launch a GPU job through Bridge's own launcher, once: a job that an earlier run launched is joined, not doubled.

``job.json`` in the launch folder stands for a job that is being followed. It is written as soon as the launcher has
named the job, and becomes ``last-job.json`` when its end has been dealt with.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import PipelineError, SettingsError
from tasks.files import digest, write_json
from tasks.megatron import slurm
from tasks.megatron.environment import launcher_environment
from tasks.megatron.job_id import Notes, notes_now, said
from tasks.megatron.logs import tail
from tasks.megatron.render import Submission

RECORD, LAST_RECORD, LAUNCHER_LOG = "job.json", "last-job.json", "launcher.log"

_GRACE_SECONDS = 5


class LaunchRecord(BaseModel):
    """A job that was launched. ``identity``: digest of its settings; ``launcher``: process id of its launcher."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job_id: int
    identity: str
    launcher: int


def identity_of(submission: Submission, root: Path) -> str:
    """Which job this is, whatever it resumes from and however it is watched."""
    settings = submission.job.model_dump(mode="json", exclude={"poll_seconds", "submission_dry_run"})
    return digest({"kind": submission.kind, "root": str(root), "settings": settings})


def read_record(folder: Path) -> LaunchRecord | None:
    """The job that is being followed; None if there is none."""
    try:
        return LaunchRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def is_launched(submission: Submission, root: Path, folder: Path) -> bool:
    """Whether an earlier run launched this job, and nobody has dealt with its end."""
    record = read_record(folder)
    return record is not None and record.identity == identity_of(submission, root)


def dry_run(submission: Submission, folder: Path) -> str:
    """What the launcher says when it only renders. Raises PipelineError with its last words if it fails."""
    if submission.dry_run is None:
        return ""
    log = folder / "dry-run.log"
    process = _start(submission, submission.dry_run, log)
    try:
        status = process.wait()
    except BaseException:
        _end(process)
        raise
    if status:
        raise PipelineError(
            f"{submission.dry_run[0]} refuses its dry run (exit {status}): {tail(log, 5)}; see {log}. With "
            "submission_dry_run=false the command is shown without it"
        )
    return log.read_text(encoding="utf-8", errors="replace")


def launch(
    submission: Submission, root: Path, folder: Path, say: Callable[[str], None], stale: Path | None = None
) -> int:
    """Launch the job, or join the one of an earlier run of the same settings; gives its id.

    ``stale``: a file that the job will write, and that must not be taken for the job's if an earlier one left it.

    Raises SettingsError if a job of other settings is still alive in this folder, PipelineError with the launcher's
    last words if it names no job, TransientError if Slurm does not answer.
    """
    identity = identity_of(submission, root)
    if record := read_record(folder):
        job = slurm.look(record.job_id)
        if record.identity == identity and job.state != slurm.LOST:
            say(f"joining {job}, launched by an earlier run")
            return record.job_id
        if not job.ended:
            raise SettingsError(
                f"{job} and was launched with other settings: wait for its end, scancel {job.job_id}, or give "
                "another name"
            )
    log = folder / LAUNCHER_LOG
    if stale:
        stale.unlink(missing_ok=True)
    notes = notes_now()
    process = _start(submission, submission.command, log)
    say(f"{submission.command[0]} runs; its output: {log}")
    try:
        job_id = _wait_for_job_id(process, log, notes)
    except BaseException:
        _end(process)
        raise
    # A launcher that stays to show the job's log is left alone: ended now, it might take the job along.
    write_json(folder / RECORD, LaunchRecord(job_id=job_id, identity=identity, launcher=process.pid).model_dump())
    return job_id


def settle(folder: Path) -> None:
    """The end of the job has been dealt with: the next launch is a new one."""
    if record := read_record(folder):
        _end_child(record.launcher)
        (folder / RECORD).replace(folder / LAST_RECORD)


def _end_child(pid: int) -> None:
    """End the launcher, if this process started it: without accounting, NeMo-Run waits for ever for an ended job."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:  # another run's, or gone
                return
            time.sleep(0.1)


def _wait_for_job_id(process: subprocess.Popen[bytes], log: Path, notes: Notes) -> int:
    while True:
        ended = process.poll() is not None
        if job_id := said(log):
            return job_id
        if ended:
            break
        time.sleep(0.2)
    noted = notes.new_jobs()
    if len(noted) == 1:
        return noted[0]
    jobs = f"one of {noted}" if noted else "no Slurm job; squeue --me tells whether there is one"
    raise PipelineError(
        f"the launcher ended with exit status {process.returncode} and named {jobs}: {tail(log, 5)}; see {log}"
    )


def _start(submission: Submission, command: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
    """The launcher, in a process group of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=submission.job.bridge_dir,
            env=launcher_environment(submission.job.env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return
