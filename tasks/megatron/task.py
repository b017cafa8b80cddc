"""GPU jobs as Prefect tasks: launch, follow, run in an allocation."""

from pathlib import Path

from prefect import get_run_logger, task

from tasks.megatron.follow import follow, run_in_allocation, step_log
from tasks.megatron.launch import dry_run, launch
from tasks.megatron.logs import step_in
from tasks.megatron.render import Submission
from tasks.megatron.slurm import Job
from tasks.running.outcomes import fails_in_words
from tasks.running.progress import ProgressArtifact
from tasks.running.retries import RETRIES


@task(name="dry-run", task_run_name="dry-run-{submission.kind}")
@fails_in_words
def dry_run_task(submission: Submission, folder: Path) -> str:
    """Return the output of the launcher's dry run. Not retried: a failed dry run would fail again."""
    return dry_run(submission, folder)


@task(name="launch-job", task_run_name="launch-{submission.kind}")
@fails_in_words
def launch_task(submission: Submission, root: Path, folder: Path, stale: Path | None = None) -> int:
    """Launch a job, or join the job of an earlier run. Not retried: the launcher may already have submitted."""
    return launch(submission, root, folder, get_run_logger().info, stale)


@task(name="follow-job", task_run_name="follow-{job_id}", **RETRIES)
@fails_in_words
def follow_task(job_id: int, poll_seconds: float) -> Job:
    """Follow a job to its end. Safe to retry: it only reads the job's state."""
    return follow(job_id, poll_seconds, _Teller().say)


@task(name="run-in-allocation", task_run_name="run-{submission.kind}")
@fails_in_words
def run_in_allocation_task(submission: Submission, folder: Path) -> Path:
    """Run the program on the GPUs of this flow's job; return its log. Not retried, since the job holds the GPUs."""
    log = step_log(folder)
    run_in_allocation(submission, log, submission.job.poll_seconds, _Teller().say)
    return log


class _Teller:
    """Logger of a job's messages that shows the steps of a training as progress."""

    def __init__(self) -> None:
        self.progress: ProgressArtifact | None = None

    def say(self, text: str) -> None:
        """Log a line, and update the progress if it contains a step."""
        get_run_logger().info("%s", text)
        if (found := step_in(text)) is None:
            return
        step, steps = found
        if self.progress is None:
            self.progress = ProgressArtifact("training-progress", steps, "steps", done=step)
        self.progress.at(step)
