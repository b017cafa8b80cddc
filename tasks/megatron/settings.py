"""Settings of the GPU jobs: checkpoint import, training, and where the job runs."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from tasks.contracts.plain_text import (
    HubName,
    Image,
    MountText,
    Override,
    PlainPath,
    Revision,
    SrunOption,
    TimeLimit,
    VariableName,
    Word,
)
from tasks.contracts.settings import Count, Positive, Settings

CHECKPOINT_NAME = "qwen3.6-35b-a3b-megatron"
QWEN_MODEL = "Qwen/Qwen3.6-35B-A3B"
QWEN_REVISION = "995ad96eacd98c81ed38be0c5b274b04031597b0"

OWN_OVERRIDES = frozenset(
    {
        "train.global_batch_size",
        "train.micro_batch_size",
        "train.train_iters",
        "dataset.micro_batch_size",
        "dataset.path",
        "dataset.task_encoder.hf_processor_path",
        "dataset.task_encoder.hf_processor_revision",
        "dataset.hf_processor_path",
        "dataset.hf_processor_revision",
        "dataset.do_validation",
        "model.hf_model_id",
        "model.bos_token_id",
        "model.eos_token_id",
        "model.tensor_model_parallel_size",
        "model.pipeline_model_parallel_size",
        "model.context_parallel_size",
        "model.expert_model_parallel_size",
        "model.expert_tensor_parallel_size",
        "validation.eval_interval",
        "validation.eval_iters",
        "checkpoint.hf_source_path",
        "checkpoint.load",
        "checkpoint.pretrained_checkpoint",
        "checkpoint.save",
        "checkpoint.save_interval",
        "logger.save_config_filepath",
    }
)
"""Keys of Bridge's configuration that are set by fields of TrainingSettings or by the data root."""


_FORMER_ROUTES = {"direct": "direct-hf", "recipe": "recipe-owned"}


def _current_route(route: object) -> object:
    return _FORMER_ROUTES.get(route, route) if isinstance(route, str) else route


ProcessorRoute = Annotated[Literal["direct-hf", "recipe-owned"], BeforeValidator(_current_route)]
"""Source of the task encoder for Bridge's selector ``energon``, in the terms of Bridge's documentation."""


class GpuJobSettings(Settings):
    """Where and how a GPU job of Megatron-Bridge runs."""

    bridge_dir: PlainPath = Field(description="Megatron-Bridge checkout; mounted as /opt/Megatron-Bridge.")
    account: Word = Field(description="Slurm account.")
    partition: Word = Field(description="Slurm partition.")
    container_image: Image = Field(
        description="Container: absolute path of a .sqsh file, or the name of an image in a registry."
    )
    run_by: Literal["launcher", "allocation"] = Field(
        "launcher",
        description="launcher: Bridge's own script submits the job, which is then followed; "
        "allocation: this run holds the whole GPU allocation, and srun starts the program in it.",
    )
    nodes: Positive = Field(1, description="Nodes of the job.")
    gpus_per_node: Positive = Field(8, description="GPUs, and tasks, on each node.")
    time_limit: TimeLimit | None = Field(None, description="Slurm time limit; null: the launcher's, 04:00:00.")
    cpus_per_task: Positive | None = Field(
        None, description="CPUs of each task in an allocation; null: an equal share of the node."
    )
    gpu_resource_request: bool = Field(
        True, description="Ask Slurm for the GPUs; false where whole GPU nodes are given without being asked for GPUs."
    )
    mounts: tuple[MountText, ...] = Field((), description="Further mounts, as HOST or HOST:CONTAINER.")
    env: tuple[VariableName, ...] = Field(
        (), description="Names of environment variables that the job gets, HF_TOKEN for example; never values."
    )
    srun_args: tuple[SrunOption, ...] = Field(
        (), description="Options that this cluster's srun needs, --mpi=pmix for example."
    )
    submission_dry_run: bool = Field(
        True, description="Without launch: let the launcher render the submission too; it needs its own packages."
    )
    poll_seconds: float = Field(10, gt=0, le=600, description="Seconds between two looks at the Slurm job.")


class CheckpointSettings(GpuJobSettings):
    """Import of a Hugging Face checkpoint; the defaults are the tutorial's."""

    name: Word = Field(CHECKPOINT_NAME, description="Folder of the checkpoint, in models/ of the data root.")
    hf_model: HubName = Field(QWEN_MODEL, description="Model on the Hugging Face hub, or a local folder.")
    hf_revision: Revision | None = Field(QWEN_REVISION, description="Its commit; null: a local folder.")
    torch_dtype: Literal["bfloat16", "float16", "float32"] = Field("bfloat16", description="Precision of the weights.")
    tp: Positive = Field(2, description="Tensor parallel size.")
    pp: Positive = Field(1, description="Pipeline parallel size.")
    ep: Positive = Field(4, description="Expert parallel size.")
    etp: Positive = Field(1, description="Expert tensor parallel size.")
    overwrite: bool = Field(False, description="Replace what lies in the checkpoint's folder.")
    trust_remote_code: bool = Field(False, description="Run Python code from the model's repository.")

    @model_validator(mode="after")
    def _revision_is_pinned(self) -> Self:
        if self.hf_revision is None and not self.hf_model.startswith("/"):
            raise ValueError(f"hf_revision is null for {self.hf_model}: pin a model of the hub by its commit")
        return self


class TrainingSettings(GpuJobSettings):
    """Training on a prepared dataset; the defaults are the tutorial's."""

    name: Word = Field("qwen3.6-35b-a3b", description="Folder of this training, in training/ of the data root.")
    dataset_dir: PlainPath | None = Field(None, description="Prepared dataset; null: energon/ in the data root.")
    checkpoint: PlainPath | None = Field(
        None, description="Megatron checkpoint to start from; null: the one that import-checkpoint leaves by default."
    )
    recipe: Word = Field("qwen35_vl_35b_a3b_pretrain_mock_config", description="Bridge's recipe.")
    mode: Literal["pretrain", "sft", "lora", "dora"] = Field("pretrain", description="What is trained.")
    step_func: Word = Field("qwen3_vl_step", description="Bridge's forward step.")
    processor_route: ProcessorRoute = Field(
        "direct-hf",
        description="Task encoder that gets the processor. direct-hf: the generic HFTaskEncoder that Bridge builds for "
        "a recipe with direct Hugging Face data, as the default recipe; recipe-owned: the recipe's, QwenVLTaskEncoder "
        "for example. `direct` and `recipe` are accepted too.",
    )
    hf_model: HubName = Field(QWEN_MODEL, description="Model, and its processor, on the Hugging Face hub.")
    hf_revision: Revision = Field(QWEN_REVISION, description="Revision of the processor.")
    bos_token_id: Count = Field(248044, description="The model's token that begins a text.")
    eos_token_id: Count = Field(248044, description="The model's token that ends a text.")
    max_steps: Positive = Field(1000, description="Optimizer steps.")
    global_batch_size: Positive = Field(512, description="Samples in one step.")
    micro_batch_size: Positive = Field(1, description="Samples in one pass; of training and dataset alike.")
    save_interval: Positive = Field(500, description="Steps between two checkpoints.")
    do_validation: bool = Field(True, description="Measure the loss on the val split too.")
    eval_interval: Positive | None = Field(None, description="Steps between two validations; null: the recipe's.")
    eval_iters: Positive | None = Field(None, description="Batches of one validation; null: the recipe's.")
    tp: Positive | None = Field(None, description="Tensor parallel size; null: the recipe's.")
    pp: Positive | None = Field(None, description="Pipeline parallel size; null: the recipe's.")
    cp: Positive | None = Field(None, description="Context parallel size; null: the recipe's.")
    ep: Positive | None = Field(None, description="Expert parallel size; null: the recipe's.")
    etp: Positive | None = Field(None, description="Expert tensor parallel size; null: the recipe's.")
    resume: bool = Field(True, description="Go on from the newest checkpoint of this training, if there is one.")
    overrides: tuple[Override, ...] = Field(
        (), description="Further KEY=VALUE overrides of Bridge's configuration; not those that have a setting here."
    )

    @model_validator(mode="after")
    def _mode_fits_recipe(self) -> Self:
        modes = next((modes for part, modes in _MODES_OF_RECIPES if part in self.recipe), None)
        if modes and self.mode not in modes:
            raise ValueError(f"mode is {self.mode}, but {self.recipe} is a recipe for {' or '.join(modes)}")
        return self

    @model_validator(mode="after")
    def _overrides_are_no_settings(self) -> Self:
        for override in self.overrides:
            key = override.lstrip("+").partition("=")[0]
            if key in OWN_OVERRIDES:
                raise ValueError(f"overrides: {key} has a setting of its own; use that, it is checked after training")
        return self


# Modes by a part of the recipe's name; Bridge's run_recipe.py rejects any other mode.
_MODES_OF_RECIPES = (
    ("_peft_", ("lora", "dora")),
    ("_pretrain_", ("pretrain",)),
    ("_sft_", ("sft",)),
)
