"""Steps that the flows of GPU jobs share: show the submission, launch and follow the job, cancel it with the flow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import Flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas.objects import FlowRun, State
from prefect.logging.loggers import flow_run_logger

from tasks.contracts.layout import DataRoot
from tasks.megatron import slurm
from tasks.megatron.checks import check_launch
from tasks.megatron.describe import describe_end, describe_submission
from tasks.megatron.follow import check_end, last_words, step_logs
from tasks.megatron.launch import found_again, read_record, settle
from tasks.megatron.logs import logs_of
from tasks.megatron.render import Submission
from tasks.megatron.settings import CheckpointSettings, TrainingSettings
from tasks.megatron.task import dry_run_task, follow_task, launch_task, run_in_allocation_task
from tasks.running.flow_lock import alone
from tasks.running.outcomes import run_task

AtEnd = Callable[[list[Path]], object]


def show_submission(submission: Submission, root: Path, folder: Path, launch: bool) -> None:
    """Show the submission; without ``launch``, let the launcher render it too."""
    text = describe_submission(submission, root, launch)
    create_markdown_artifact(text, key=f"{submission.kind}-submission", description="The GPU job, as submitted")
    if launch or submission.dry_run is None or not submission.job.submission_dry_run:
        return
    rendered = run_task(dry_run_task, submission, folder)
    shown = describe_end(f"{submission.kind}: dry run", "What Bridge's launcher renders.", None, rendered)
    create_markdown_artifact(shown, key=f"{submission.kind}-dry-run", description="The launcher's own dry run")


def run_job(
    submission: Submission, root: Path, folder: Path, stale: Path | None = None, at_end: AtEnd = lambda logs: None
) -> None:
    """Run the job until it ends; ``at_end`` receives its logs, oldest first, however the job ended.

    Raises BusyError while another run launches or follows the job, SettingsError if it cannot be launched from here,
    PipelineError if it fails.
    """
    check_launch(submission.job, submission.mounts)
    with alone(folder, submission.kind, root):
        if submission.job.run_by == "launcher":
            _launch_and_follow(submission, root, folder, stale, at_end)
            return
        try:
            run_task(run_in_allocation_task, submission, folder)
        finally:
            at_end(step_logs(folder))


def _launch_and_follow(submission: Submission, root: Path, folder: Path, stale: Path | None, at_end: AtEnd) -> None:
    job_id = run_task(launch_task, submission, root, folder, stale)
    try:
        job = run_task(follow_task, job_id, submission.job.poll_seconds)
    except BaseException:
        get_run_logger().warning(
            "Slurm job %d is no longer followed. Unless this run was cancelled, it goes on: run the flow again to "
            "follow it, or scancel %d",
            job_id,
            job_id,
        )
        raise
    settle(folder)
    shown = describe_end(f"{submission.kind}: {job.state}", str(job), job.log, last_words(job))
    create_markdown_artifact(shown, key=f"{submission.kind}-job", description="How the Slurm job ended")
    at_end(logs_of(job.job_id, job.log))
    check_end(job)


_SETTINGS: dict[str, tuple[str, type[CheckpointSettings] | type[TrainingSettings]]] = {
    "import-checkpoint": ("checkpoint", CheckpointSettings),
    "train-model": ("training", TrainingSettings),
}


def cancel_with_flow(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Cancel the job that a cancelled flow was following. Prefect calls this hook after the flow's process ends."""
    parameter, model = _SETTINGS[flow.name]
    settings = model.model_validate(flow_run.parameters[parameter])
    folder = DataRoot(Path(flow_run.parameters["root"])).launch(flow.name, settings.name)
    if record := read_record(folder) or found_again(folder):
        slurm.cancel(record.job_id)
        settle(folder)
        flow_run_logger(flow_run).info("cancelled Slurm job %d", record.job_id)
