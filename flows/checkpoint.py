"""import-checkpoint: convert a Hugging Face checkpoint to a Megatron one, on GPUs, with Megatron-Bridge's converter."""

from pathlib import Path
from typing import Literal

from prefect import flow
from pydantic import BaseModel, ConfigDict

from flows.gpu_job import cancel_with_flow, run_job, show_submission
from tasks.contracts.layout import DataRoot
from tasks.megatron.checks import check_import
from tasks.megatron.environment import with_cpu_share
from tasks.megatron.imports import finished_import, leave_receipt
from tasks.megatron.launch import is_launched
from tasks.megatron.places import FIRST_ITERATION, imported_checkpoint
from tasks.megatron.render import render_import
from tasks.megatron.settings import CheckpointSettings
from tasks.megatron.verify import check_imported
from tasks.running.outcomes import ends_in_words


class CheckpointResult(BaseModel):
    """Result of an import. ``checkpoint``: where training starts. ``command``: launches, or launched, the import."""

    model_config = ConfigDict(frozen=True)

    status: Literal["rendered", "imported", "unchanged"]
    checkpoint: Path
    command: tuple[str, ...]

    def in_words(self) -> str:
        """Summarize the outcome in one line."""
        if self.status == "rendered":
            return f"only shown, not launched: the import to {self.checkpoint}"
        return f"{self.checkpoint}: {self.status}"


@flow(name="import-checkpoint", flow_run_name="import {checkpoint.hf_model}", on_cancellation=[cancel_with_flow])
@ends_in_words
def import_checkpoint(root: Path, checkpoint: CheckpointSettings, launch: bool = False) -> CheckpointResult:
    """Render the import of a checkpoint, and launch it when told to; nothing to do if it is there.

    Args:
        root: Data root, an absolute path; the checkpoint goes into models/ of it.
        checkpoint: What is imported, and where the GPU job runs.
        launch: Launch the job and follow it to its end; otherwise it is only shown.
    """
    folder = DataRoot(root).launch("import-checkpoint", checkpoint.name)
    checkpoint = with_cpu_share(checkpoint)
    submission = render_import(root, checkpoint)
    target = imported_checkpoint(root, checkpoint) / FIRST_ITERATION
    if finished_import(root, checkpoint, folder):
        return CheckpointResult(status="unchanged", checkpoint=target, command=submission.command)
    check_import(root, checkpoint, joining=launch and is_launched(submission, root, folder))
    show_submission(submission, root, folder, launch)
    if not launch:
        return CheckpointResult(status="rendered", checkpoint=target, command=submission.command)
    run_job(submission, root, folder)
    check_imported(root, checkpoint)
    leave_receipt(checkpoint, folder)
    return CheckpointResult(status="imported", checkpoint=target, command=submission.command)


if __name__ == "__main__":
    from cli.program import run_program

    run_program(import_checkpoint)
