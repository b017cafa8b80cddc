"""Launch of a GPU job through Bridge's own launcher, exactly once: a job of an earlier run is joined.

``job.json`` in the launch folder records the job that is being followed. It is written as soon as the job id is
known, and renamed to ``last-job.json`` when the end of the job has been handled. Until it is written,
``launching.json`` records the launcher (attempt.py).
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.contracts.errors import PipelineError, SettingsError
from tasks.contracts.exit_status import describe_exit
from tasks.io.files import digest, write_json
from tasks.megatron import slurm
from tasks.megatron.attempt import Attempt, begin, finish, outcome, unfinished
from tasks.megatron.environment import launcher_environment
from tasks.megatron.job_id import notes_now, said
from tasks.megatron.logs import tail
from tasks.megatron.render import Submission

RECORD, LAST_RECORD, LAUNCHER_LOG = "job.json", "last-job.json", "launcher.log"

_GRACE_SECONDS = 5


class LaunchRecord(BaseModel):
    """A launched job. ``identity``: digest of its settings; ``launcher``: process id of its launcher, or 0."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job_id: int
    identity: str
    launcher: int


def identity_of(submission: Submission, root: Path) -> str:
    """Return the digest that identifies a job, regardless of what it resumes from and how it is watched."""
    settings = submission.job.model_dump(mode="json", exclude={"poll_seconds", "submission_dry_run"})
    if "processor_route" in settings:
        # The route does not change the command, and a job that was launched under a former route name is the same job.
        settings["processor_route"] = "recipe"
    return digest({"kind": submission.kind, "root": str(root), "settings": settings})


def read_record(folder: Path) -> LaunchRecord | None:
    """Return the job that is being followed, or None."""
    try:
        return LaunchRecord.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None


def is_launched(submission: Submission, root: Path, folder: Path) -> bool:
    """Return whether an earlier run launched this job, or was about to, and its end has not been handled yet."""
    known = read_record(folder) or unfinished(folder)
    return known is not None and known.identity == identity_of(submission, root)


def dry_run(submission: Submission, folder: Path) -> str:
    """Return the output of the launcher's dry run. Raises PipelineError with its last lines if it fails."""
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
    """Launch the job, or join the job of an earlier run with the same settings; return its id.

    ``stale``: a file that the job will write; one from an earlier job is removed before the launch.

    Raises SettingsError if a job with other settings is still active in this folder, PipelineError with the
    launcher's last lines if its job id cannot be found, TransientError if Slurm does not answer.
    """
    identity, log = identity_of(submission, root), folder / LAUNCHER_LOG
    if record := read_record(folder) or found_again(folder):
        job = slurm.look(record.job_id)
        if record.identity == identity and job.state != slurm.LOST:
            say(f"joining {job}, launched by an earlier run")
            return record.job_id
        if not job.ended:
            raise SettingsError(
                f"{job} and was launched with other settings: wait for its end, scancel {job.job_id}, or give "
                "another name"
            )
    if stale:
        stale.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # a job id of an earlier launcher must not be mistaken for the new one
    attempt, lock = begin(folder, identity, notes_now())
    try:
        process = _start(submission, submission.command, log, (lock,))
    finally:
        os.close(lock)
    say(f"{submission.command[0]} runs; its output: {log}")
    try:
        return _wait_for_job_id(process, log, attempt)
    except BaseException:
        _end(process)
        raise
    finally:
        # Do not stop a launcher that stays to show the job's log: it might cancel the job.
        _note_job(folder, attempt, outcome(attempt, log, wait=False), process.pid)


def found_again(folder: Path) -> LaunchRecord | None:
    """Wait for the launcher of a run that died, record its job if it submitted one, and return the record."""
    attempt = unfinished(folder)
    return _note_job(folder, attempt, outcome(attempt, folder / LAUNCHER_LOG)) if attempt else None


def _note_job(folder: Path, attempt: Attempt, job_id: int | None, launcher: int = 0) -> LaunchRecord | None:
    record = LaunchRecord(job_id=job_id, identity=attempt.identity, launcher=launcher) if job_id else None
    if record:
        write_json(folder / RECORD, record.model_dump())
    finish(folder)
    return record


def settle(folder: Path) -> None:
    """Archive the job's record after its end was handled, and stop its launcher: the next launch is a new job."""
    if record := read_record(folder):
        if record.launcher:
            _end_child(record.launcher)
        (folder / RECORD).replace(folder / LAST_RECORD)


def _end_child(pid: int) -> None:
    """Stop the launcher if this process started it: without accounting, NeMo-Run waits forever for an ended job."""
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    return
            except ChildProcessError:  # started by another run, or already reaped
                return
            time.sleep(0.1)


def _wait_for_job_id(process: subprocess.Popen[bytes], log: Path, attempt: Attempt) -> int:
    while True:
        ended = process.poll() is not None
        if job_id := said(log):
            return job_id
        if ended:
            break
        time.sleep(0.2)
    noted = attempt.new_jobs()
    if len(noted) == 1:
        return noted[0]
    jobs = f"one of {noted}" if noted else "no Slurm job; squeue --me tells whether there is one"
    raise PipelineError(f"the launcher {describe_exit(process.returncode)} and named {jobs}: {tail(log, 5)}; see {log}")


def _start(
    submission: Submission, command: tuple[str, ...], log: Path, inherited: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start the launcher in its own session, with the descriptors that it inherits."""
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
            pass_fds=inherited,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
            return
