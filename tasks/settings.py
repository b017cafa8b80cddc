"""Every setting of the pipeline, declared once: the UI form, the command line and the docs come from here."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tasks.plain_text import (
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


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown name is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def filled_from(self, defaults: dict[str, Any]) -> Self:
        """A copy in which fields that the caller left out take their value from ``defaults``."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**defaults, **given})


Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


Share = Annotated[float, Field(ge=0, le=1)]
Finding = Literal[
    "url_not_http",
    "host_loopback",
    "host_private",
    "boxes_null",
    "box_never_blurred",
    "box_broken",
    "box_over_the_edge",
    "text_not_utf8",
    "caption_missing",
    "caption_blank",
]
"""What a look at the metadata can find; what each one means: tasks/metadata/look.py."""


class TroubleSettings(Settings):
    """When a running download is in trouble: from one threshold on it warns, from the other on it stops.

    Shares are of the attempts in the shards that were finished last, once ``attempts`` of them are there.
    """

    attempts: Positive = Field(10_000, description="Attempts that a verdict needs; the latest ones count.")
    success_warn: Share = Field(0.8, description="Warn below this share of the slice's expected success rate.")
    success_stop: Share = Field(0.5, description="Stop below this share of the slice's expected success rate.")
    decoding_warn: Share = Field(0.1, description="Warn if this share of attempts came, but could not be decoded.")
    decoding_stop: Share = Field(0.5, description="Stop if this share of attempts came, but could not be decoded.")
    name_resolution_warn: Share = Field(0.3, description="Warn if host names of this share of attempts are unknown.")
    name_resolution_stop: Share = Field(0.6, description="Stop if host names of this share of attempts are unknown.")
    free_gb_warn: float = Field(10.0, ge=0, description="Warn below this much free space for the shards, in GB.")
    free_gb_stop: float = Field(1.0, ge=0, description="Stop below this much free space for the shards, in GB.")


class DownloadSettings(Settings):
    """How img2dataset fetches the images; the defaults are the tutorial's."""

    downloader: Literal["auto", "official", "current"] = Field(
        "auto",
        description="official: DataComp's script and pins; current: a newer img2dataset; auto: what the slice says.",
    )
    environment: Path | None = Field(
        None,
        description="Folder of the downloader environment, built if missing; null: inside the data root.",
    )
    python: str | None = Field(
        None,
        description="Python for the downloader environment: a path or a version; null: 3.10 (official) or our own.",
    )
    upstream_url: str = Field(
        "https://github.com/mlfoundations/datacomp.git",
        description="Where the official downloader is cloned from; a local mirror or bare repository will do.",
    )
    upstream_commit: str = Field(
        "4a8df1992566ef8334773f7152e1855b1f716162",
        pattern="^[0-9a-f]{40}$",
        description="Commit of the official downloader; verified before every run.",
    )
    processes_count: Positive = Field(16, description="Downloader processes.")
    thread_count: Positive = Field(128, description="Download threads in each process.")
    image_size: int = Field(512, ge=16, le=8192, description="Longest side of a stored image, in pixels.")
    resize_mode: Literal["keep_ratio_largest", "keep_ratio", "center_crop", "border", "no"] = Field(
        "keep_ratio_largest", description="How img2dataset resizes."
    )
    resize_only_if_bigger: bool = Field(True, description="Leave images alone that are smaller than image_size.")
    encode_format: Literal["jpg"] = Field("jpg", description="Format of stored images; conversion needs jpg.")
    encode_quality: int = Field(95, ge=1, le=100, description="JPEG quality of stored images.")
    retries: Count = Field(2, description="Further attempts after a failed one, per URL.")
    timeout: Positive = Field(10, description="Seconds that one socket operation may take.")
    number_sample_per_shard: Positive = Field(10_000, description="Attempts in each shard.")
    blur_faces: bool = Field(True, description="Blur the boxes that face_bboxes names.")
    oom_shard_count: int = Field(8, ge=5, le=10, description="Digits in a shard's name.")
    user_agent_token: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_.-]+$",
        description="Token added to img2dataset's user agent; opt-out headers may name it.",
    )
    response_timeout: Positive = Field(60, description="Seconds that one whole answer may take, redirects included.")
    response_megabytes: Positive = Field(50, description="Largest answer that is read, in MB.")
    stall_timeout: Positive = Field(
        600, description="Seconds without a new shard or byte after which the downloader is ended and resumed."
    )
    stall_restarts: Count = Field(5, description="Restarts in a row that may pass without a new shard.")
    expected_success_rate: Share | None = Field(
        None, description="Share of attempts that should succeed; null: not watched."
    )
    trouble: TroubleSettings = Field(TroubleSettings(), description="When a running download warns and stops.")
    accepted_findings: tuple[Finding, ...] = Field(
        (), description="What may be found in the metadata without stopping the download."
    )

    @model_validator(mode="after")
    def _slow_servers_are_no_stall(self) -> Self:
        longest = (self.retries + 1) * self.response_timeout
        if self.stall_timeout <= longest:
            raise ValueError(
                f"stall_timeout ({self.stall_timeout} s) must be longer than one URL may take: (retries + 1) x "
                f"response_timeout = {longest} s; raise the first or lower the others"
            )
        return self


class GateSettings(Settings):
    """What the downloaded shards must add up to; null means unchecked."""

    expected_shards: Count | None = Field(None, description="Exact number of completed shards.")
    expected_attempts: Count | None = Field(None, description="Exact number of attempted URLs, over all shards.")
    minimum_successes: Count | None = Field(None, description="Least number of successful downloads.")


class ConvertSettings(Settings):
    """How raw samples become training samples."""

    prompt: str = Field("Describe this image.", description="Text of the user turn, after the image.")
    max_samples_per_tar: Positive = Field(10_000, description="Samples in each output tar.")
    validation_fraction: float = Field(
        0.01, ge=0, lt=1, description="Share of samples that go to the val split, chosen by uid."
    )
    minimum_train_samples: Count = Field(
        0, description="Fewer train samples than this fail the conversion; its tars are kept, not indexed."
    )
    maximum_samples: Positive | None = Field(None, description="Stop after this many samples; null: take all.")
    source_dataset: str = Field(
        "mlfoundations/datacomp_1b", description="Hub repository of the metadata, noted in every sample."
    )
    source_revision: str = Field(
        "086ebeee20d4cc3b3e7c05ae703fcf278ae3a759", description="Its revision, noted in every sample."
    )
    exclude_uids: Path | None = Field(
        None, description="File with one uid a line that must not enter the dataset (takedowns, opt-outs)."
    )

    @field_validator("prompt")
    @classmethod
    def _prompt_says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("the prompt is blank; give the text that the user turn should hold")
        return value

    @field_validator("prompt", "source_dataset", "source_revision")
    @classmethod
    def _can_be_written(cls, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("the text holds characters that cannot be written as UTF-8") from None
        return value

    @model_validator(mode="after")
    def _enough_samples_are_possible(self) -> Self:
        if self.maximum_samples is not None and self.maximum_samples < self.minimum_train_samples:
            raise ValueError(
                f"maximum_samples ({self.maximum_samples}) is below minimum_train_samples "
                f"({self.minimum_train_samples}): no conversion could pass; raise the first or lower the second"
            )
        return self


class CheckSettings(Settings):
    """How the prepared dataset is checked."""

    batch_size: Positive = Field(16, description="Samples that the loader yields at a time.")
    verify: Literal["changed", "full"] = Field(
        "changed", description="changed: trust noted hashes of unchanged files; full: hash every tar again."
    )


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
"""Keys of Bridge's configuration that fields of TrainingSettings, or the data root, decide."""


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
    processor_route: Literal["recipe", "direct"] = Field(
        "recipe",
        description="recipe: the recipe's own task encoder gets the processor; direct: dataset.hf_processor_path does.",
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


# What the names of Bridge's recipes promise; its run_recipe.py refuses another mode.
_MODES_OF_RECIPES = (
    ("_peft_", ("lora", "dora")),
    ("_pretrain_", ("pretrain",)),
    ("_sft_", ("sft",)),
)


class ReportSettings(Settings):
    """How much of a dataset its report shows; tables are always read in full."""

    contact_sheet: Count = Field(144, description="Samples on the contact sheet, a quarter of them val.")
    reject_sheet: Count = Field(48, description="Rejected samples that are shown, every reason in like number.")
    pictures_looked_at: Count = Field(
        1000, description="Pictures, chosen by chance, that are searched for grey, uniform and banded ones."
    )
    seed: Count = Field(0, description="Which samples chance takes; the same seed takes the same ones.")
