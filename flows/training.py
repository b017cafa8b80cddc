"""train-model: train on a prepared dataset with Megatron-Bridge's recipes, and compare the run with the settings."""

from functools import partial
from pathlib import Path
from typing import Literal

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from pydantic import BaseModel, ConfigDict

from flows.gpu_job import cancel_with_flow, run_job, show_submission
from tasks.contracts.errors import GateError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import CheckSettings
from tasks.energon.task import check_files_task
from tasks.megatron.checks import check_training
from tasks.megatron.describe import describe_checks, describe_training
from tasks.megatron.environment import with_cpu_share
from tasks.megatron.history import keep_log, read_history
from tasks.megatron.launch import is_launched
from tasks.megatron.places import newest_checkpoint, training_places
from tasks.megatron.plot import curves
from tasks.megatron.render import render_training
from tasks.megatron.settings import TrainingSettings
from tasks.megatron.verify import check_resolved, differences, read_resolved
from tasks.report.task import write_training_report_task
from tasks.running.outcomes import ends_in_words, run_task


class TrainingResult(BaseModel):
    """Result of a training. ``command``: launches, or launched, it. Its logs contain losses; ``report`` shows them."""

    model_config = ConfigDict(frozen=True)

    status: Literal["rendered", "trained", "unchanged"]
    save_dir: Path
    command: tuple[str, ...]
    report: Path | None = None
    newest_checkpoint: int | None = None
    last_step: int | None = None
    last_loss: float | None = None

    def in_words(self) -> str:
        """Summarize the training in one line."""
        if self.status == "rendered":
            return f"only shown, not launched: the training in {self.save_dir}"
        loss = "" if self.last_loss is None else f", loss {self.last_loss:.4g} at step {self.last_step:,}"
        return f"{self.status}{loss}; newest checkpoint {self.newest_checkpoint}"


@flow(name="train-model", flow_run_name="train {training.name}", on_cancellation=[cancel_with_flow])
@ends_in_words
def train_model(root: Path, training: TrainingSettings, launch: bool = False) -> TrainingResult:
    """Render a training, and launch it when told to; afterwards compare what it resolved with what was asked.

    Args:
        root: Data root, an absolute path; checkpoints go into training/ of it.
        training: What is trained, and where the GPU job runs.
        launch: Launch the job and follow it to its end; otherwise it is only shown.
    """
    folder = DataRoot(root).launch("train-model", training.name)
    training = with_cpu_share(training)
    places = training_places(root, training)
    index = run_task(check_files_task, places.dataset, CheckSettings())
    check_training(root, training, index.train, index.val)
    submission = render_training(root, training)
    joining = launch and is_launched(submission, root, folder)
    complete = training.resume and (newest_checkpoint(places.save_dir) or 0) >= training.max_steps
    show_submission(submission, root, folder, launch)
    if not launch:
        return TrainingResult(status="rendered", save_dir=places.save_dir, command=submission.command)
    if not complete or joining:
        run_job(submission, root, folder, places.resolved_config, partial(_show_log, root, training))
    _verify(root, training)
    log, page = read_history(DataRoot(root).training_log(training.name)), DataRoot(root).training_report(training.name)
    last = log.iterations[-1] if log.iterations else None
    return TrainingResult(
        status="unchanged" if complete and not joining else "trained",
        save_dir=places.save_dir,
        command=submission.command,
        report=page if page.exists() else None,
        newest_checkpoint=newest_checkpoint(places.save_dir),
        last_step=last.step if last else None,
        last_loss=last.loss if last else None,
    )


def _show_log(root: Path, training: TrainingSettings, logs: list[Path]) -> None:
    """Add a job's logs to the logs of earlier jobs, and show all on a page and in an artifact."""
    log = keep_log(DataRoot(root).training_log(training.name), training, logs)
    page = run_task(write_training_report_task, root, training.name)
    text = describe_training(log, training.global_batch_size, curves(log), page)
    create_markdown_artifact(text, key="train-model-log", description="Losses, speed, checkpoints")


def _verify(root: Path, training: TrainingSettings) -> None:
    """Show requested and resolved values side by side. Raises GateError if they differ."""
    places = training_places(root, training)
    checks = check_resolved(root, training, read_resolved(places.resolved_config))
    create_table_artifact(describe_checks(checks), key="train-model-resolved", description="Asked and resolved")
    faults = differences(checks)
    newest = newest_checkpoint(places.save_dir)
    if newest != training.max_steps:
        faults.append(f"the newest checkpoint in {places.save_dir} is {newest}, asked were {training.max_steps} steps")
    if faults:
        raise GateError(f"{places.resolved_config}: {'; '.join(faults)}")


if __name__ == "__main__":
    from cli.program import run_program

    run_program(train_model)
