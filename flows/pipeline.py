"""prepare-and-train: from metadata to a launched training, each stage a deployment of its own."""

from pathlib import Path
from typing import Any

from prefect import flow
from pydantic import BaseModel, ConfigDict

from flows.prepare import DatasetName
from tasks.contracts.errors import GateError
from tasks.contracts.layout import DataRoot, GivenPath, absolute
from tasks.contracts.plain_text import Word
from tasks.megatron.checks import check_pipeline
from tasks.megatron.places import FIRST_ITERATION, holds_files, imported_checkpoint
from tasks.megatron.settings import CheckpointSettings, GpuJobSettings, TrainingSettings
from tasks.running.outcomes import ends_in_words
from tasks.running.stages import cancel_children, finished, only_given, started


class PipelineResult(BaseModel):
    """Flow runs of the stages, by name of their flow."""

    model_config = ConfigDict(frozen=True)

    root: Path
    stages: dict[str, str]

    def in_words(self) -> str:
        """Summarize the completed stages in one line."""
        return f"completed: {', '.join(self.stages)}"


@flow(
    name="prepare-and-train",
    flow_run_name="prepare and train {training.name} in {root}",
    on_cancellation=[cancel_children],
)
@ends_in_words
def prepare_and_train(
    root: GivenPath,
    checkpoint: CheckpointSettings,
    training: TrainingSettings,
    dataset_slice: str = "datacomp-1b-tutorial",
    dataset_name: DatasetName = "energon",
    cluster: str = "local",
    suffix: Word = "local",
    gpu_suffix: Word | None = None,
    launch: bool = False,
) -> PipelineResult:
    """Run prepare-datacomp, import-checkpoint and train-model one after the other; the first that fails ends it.

    Args:
        root: Data root, an absolute path.
        checkpoint: What is imported, and where the GPU job runs.
        training: What is trained, and where the GPU job runs; its dataset is the one prepared here.
        dataset_slice: Slice: the name of a shipped one, or the path of a YAML file.
        dataset_name: Folder of the dataset in the data root.
        cluster: Cluster profile of the preparation.
        suffix: Which deployment of the preparation is started: prepare-datacomp/<suffix>.
        gpu_suffix: Which deployment of the GPU stages; null: local where Bridge's launcher submits the job, and suffix
            where the flow itself holds the GPUs (run_by).
        launch: Launch both GPU jobs; otherwise they are shown, the training once there is a checkpoint.
    """
    root = absolute(root)
    check_pipeline(root, checkpoint, training)
    imported = imported_checkpoint(root, checkpoint) / FIRST_ITERATION
    training = training.model_copy(
        update={"dataset_dir": DataRoot(root).dataset(dataset_name), "checkpoint": training.checkpoint or imported}
    )
    prepare = {"root": root, "dataset_slice": dataset_slice, "dataset_name": dataset_name, "cluster": cluster}
    stages = {"prepare-datacomp": _run_stage("prepare-datacomp", suffix, prepare)}
    importing = {"root": root, "checkpoint": checkpoint, "launch": launch}
    stages["import-checkpoint"] = _run_stage("import-checkpoint", _where(checkpoint, suffix, gpu_suffix), importing)
    if launch or holds_files(imported):
        starting = {"root": root, "training": training, "launch": launch}
        stages["train-model"] = _run_stage("train-model", _where(training, suffix, gpu_suffix), starting)
    return PipelineResult(root=root, stages=stages)


def _where(job: GpuJobSettings, suffix: str, gpu_suffix: str | None) -> str:
    return gpu_suffix or ("local" if job.run_by == "launcher" else suffix)


def _run_stage(name: str, suffix: str, parameters: dict[str, Any]) -> str:
    """Run a stage's deployment to its end and return the id of its flow run. Raises GateError unless it completed."""
    child = started(f"{name}/{suffix}", only_given(parameters))
    state = finished(child)
    if not state.is_completed():
        raise GateError(
            f"{name} (flow run {child.name}) ended {state.name}: {state.message}. No stage after it was started"
        )
    return str(child.id)


if __name__ == "__main__":
    from cli.program import run_program

    run_program(prepare_and_train)
