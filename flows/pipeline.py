"""prepare-and-train: from metadata to a launched training, each stage a deployment of its own."""

from pathlib import Path
from typing import Any, cast

from prefect import flow, get_run_logger
from prefect.client.schemas.objects import FlowRun
from prefect.deployments import run_deployment
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run
from pydantic import BaseModel, ConfigDict

from flows.prepare import DatasetName
from flows.program import run_program
from flows.stages import only_given
from tasks.errors import GateError, SettingsError
from tasks.layout import DataRoot, absolute
from tasks.megatron.places import FIRST_ITERATION, holds_files, imported_checkpoint
from tasks.megatron.settings import CheckpointSettings, TrainingSettings
from tasks.plain_text import Word
from tasks.words import ends_in_words


class PipelineResult(BaseModel):
    """Flow runs of the stages, by name of their flow."""

    model_config = ConfigDict(frozen=True)

    root: Path
    stages: dict[str, str]

    def in_words(self) -> str:
        """Which stages ran, in a line."""
        return f"completed: {', '.join(self.stages)}"


@flow(name="prepare-and-train", flow_run_name="prepare and train {training.name} in {root}")
@ends_in_words
def prepare_and_train(
    root: Path,
    checkpoint: CheckpointSettings,
    training: TrainingSettings,
    dataset_slice: str = "datacomp-1b-tutorial",
    dataset_name: DatasetName = "energon",
    cluster: str = "local",
    suffix: Word = "local",
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
        suffix: Which deployment of each stage is started: prepare-datacomp/<suffix> and so on.
        launch: Launch both GPU jobs; otherwise they are shown, the training once there is a checkpoint.
    """
    root = absolute(root)
    imported = imported_checkpoint(root, checkpoint) / FIRST_ITERATION
    training = training.model_copy(
        update={"dataset_dir": DataRoot(root).dataset(dataset_name), "checkpoint": training.checkpoint or imported}
    )
    prepare = {"root": root, "dataset_slice": dataset_slice, "dataset_name": dataset_name, "cluster": cluster}
    stages = {"prepare-datacomp": _run_stage("prepare-datacomp", suffix, prepare)}
    importing = {"root": root, "checkpoint": checkpoint, "launch": launch}
    stages["import-checkpoint"] = _run_stage("import-checkpoint", suffix, importing)
    if launch or holds_files(imported):
        starting = {"root": root, "training": training, "launch": launch}
        stages["train-model"] = _run_stage("train-model", suffix, starting)
    return PipelineResult(root=root, stages=stages)


def _run_stage(name: str, suffix: str, parameters: dict[str, Any]) -> str:
    """Run a stage's deployment to its end; gives the id of its flow run.

    The key ties the child to this run: a parent that is run again finds its child again. Raises SettingsError if
    there is no such deployment, GateError if the stage did not complete.
    """
    key = f"{flow_run.get_id()}-{name}"
    try:
        child = cast(
            FlowRun, run_deployment(f"{name}/{suffix}", parameters=only_given(parameters), idempotency_key=key)
        )
    except ObjectNotFound:
        raise SettingsError(f"there is no deployment {name}/{suffix}: deploy it, or give another suffix") from None
    state = child.state
    if state is None or not state.is_completed():
        end = f"{state.name}: {state.message}" if state else "unknown"
        raise GateError(f"{name} (flow run {child.name}) ended {end}. No stage after it was started")
    get_run_logger().info("%s: %s", name, child.name)
    return str(child.id)


if __name__ == "__main__":
    run_program(prepare_and_train)
