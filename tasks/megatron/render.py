"""Commands that start GPU jobs, as lists of arguments that never pass through a shell.

Flags and overrides are those of Megatron-Bridge's scripts/conversion/convert.sh and scripts/training/train.sh, and of
the programs that these start in the container: scripts/conversion/run_conversion.py and
scripts/training/run_recipe.py.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.megatron.places import (
    BRIDGE,
    Mount,
    imported_checkpoint,
    inside,
    mounts_of,
    newest_checkpoint,
    training_places,
)
from tasks.megatron.settings import CheckpointSettings, GpuJobSettings, TrainingSettings

Kind = Literal["import-checkpoint", "train-model"]
CONVERT, TRAIN = "scripts/conversion/convert.sh", "scripts/training/train.sh"
RUN_CONVERSION, RUN_RECIPE = "scripts/conversion/run_conversion.py", "scripts/training/run_recipe.py"


@dataclass(frozen=True)
class Submission:
    """One GPU job: the command that launches it, and the dry-run command (None in an allocation)."""

    kind: Kind
    job: GpuJobSettings
    command: tuple[str, ...]
    dry_run: tuple[str, ...] | None
    mounts: tuple[Mount, ...]


def render_import(root: Path, checkpoint: CheckpointSettings) -> Submission:
    """Return the submission of a checkpoint import. ``root``: absolute path of the data root."""
    mounts = mounts_of(root, checkpoint)
    program = _import_arguments(seen(imported_checkpoint(root, checkpoint), mounts), checkpoint)
    if checkpoint.run_by == "allocation":
        command = _srun(checkpoint, mounts, RUN_CONVERSION, ("import", "--device", "gpu", *program))
        return Submission("import-checkpoint", checkpoint, command, None, mounts)
    launcher = (f"./{CONVERT}", "import", "--executor", "slurm", "--device", "gpu")
    return _by_launcher("import-checkpoint", checkpoint, mounts, launcher, "--submission-dry-run", program)


def render_training(root: Path, training: TrainingSettings) -> Submission:
    """Return the submission of a training. ``root``: absolute path of the data root."""
    mounts = mounts_of(root, training)
    program = _training_arguments(root, training, mounts)
    if training.run_by == "allocation":
        return Submission("train-model", training, _srun(training, mounts, RUN_RECIPE, program), None, mounts)
    return _by_launcher("train-model", training, mounts, (f"./{TRAIN}",), "--dry-run", program)


def _by_launcher(
    kind: Kind,
    job: GpuJobSettings,
    mounts: tuple[Mount, ...],
    launcher: tuple[str, ...],
    dry_run: str,
    program: tuple[str, ...],
) -> Submission:
    where = (*launcher, *_execution_arguments(job, mounts))
    return Submission(kind, job, (*where, *program), (*where, dry_run, *program), mounts)


def _execution_arguments(job: GpuJobSettings, mounts: tuple[Mount, ...]) -> tuple[str, ...]:
    arguments = ["--nodes", str(job.nodes), "--gpus-per-node", str(job.gpus_per_node)]
    arguments += ["--account", job.account, "--partition", job.partition, "--container-image", job.container_image]
    if job.time_limit:
        arguments += ["--time", job.time_limit]
    if not job.gpu_resource_request:
        arguments.append("--no-gpu-resource-request")
    for mount in mounts:
        arguments += ["--mount", str(mount)]
    for name in job.env:
        arguments += ["--env", name]
    return (*arguments, *(f"--srun-arg={option}" for option in job.srun_args))


def _srun(job: GpuJobSettings, mounts: tuple[Mount, ...], script: str, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the srun command that starts what a launcher's job would: one task per GPU, in the container."""
    options = [f"--nodes={job.nodes}", f"--ntasks={job.nodes * job.gpus_per_node}"]
    options += [f"--ntasks-per-node={job.gpus_per_node}", "--wait=60", "--kill-on-bad-exit=1"]
    if job.cpus_per_task:
        options.append(f"--cpus-per-task={job.cpus_per_task}")
    options.append(f"--container-image={job.container_image}")
    options.append("--container-mounts=" + ",".join(f"{mount.host}:{mount.container}" for mount in mounts))
    options.append("--container-env=" + ",".join(dict.fromkeys((*job.env, "PYTHONPATH"))))
    return ("srun", *options, *job.srun_args, "python", str(BRIDGE / script), *program)


def _import_arguments(megatron_path: Path, checkpoint: CheckpointSettings) -> tuple[str, ...]:
    arguments = ["--hf-model", checkpoint.hf_model]
    if checkpoint.hf_revision:
        arguments += ["--hf-revision", checkpoint.hf_revision]
    arguments += ["--megatron-path", str(megatron_path), "--torch-dtype", checkpoint.torch_dtype]
    for name in ("tp", "pp", "ep", "etp"):
        arguments += [f"--{name}", str(getattr(checkpoint, name))]
    if checkpoint.overwrite:
        arguments.append("--overwrite")
    if checkpoint.trust_remote_code:
        arguments.append("--trust-remote-code")
    return tuple(arguments)


def _training_arguments(root: Path, training: TrainingSettings, mounts: tuple[Mount, ...]) -> tuple[str, ...]:
    places = training_places(root, training)
    return (
        *("--recipe", training.recipe, "--mode", training.mode, "--dataset", "energon"),
        *("--step-func", training.step_func),
        *("--pretrained_checkpoint", str(seen(places.checkpoint, mounts))),
        *("--max_steps", str(training.max_steps)),
        *("--save_dir", str(seen(places.save_dir, mounts)), "--save_interval", str(training.save_interval)),
        *(f"{key}={value}" for key, value in overrides_of(root, training, mounts).items()),
        *training.overrides,
    )


def overrides_of(root: Path, training: TrainingSettings, mounts: tuple[Mount, ...]) -> dict[str, str]:
    """Return the overrides of Bridge's configuration for the settings, with paths inside the container."""
    places = training_places(root, training)
    save_dir = str(seen(places.save_dir, mounts))
    resumes = training.resume and newest_checkpoint(places.save_dir) is not None
    return {
        "train.global_batch_size": str(training.global_batch_size),
        # Bridge does not keep these two micro batch sizes equal, so both are set.
        "train.micro_batch_size": str(training.micro_batch_size),
        "dataset.micro_batch_size": str(training.micro_batch_size),
        "dataset.path": str(seen(places.dataset, mounts)),
        **_processor(training),
        "dataset.do_validation": _lower(training.do_validation),
        "dataset.do_test": "false",
        "dataset.enable_in_batch_packing": "false",
        "dataset.defer_in_batch_packing_to_step": "true",
        "model.hf_model_id": training.hf_model,
        "model.bos_token_id": str(training.bos_token_id),
        "model.eos_token_id": str(training.eos_token_id),
        "checkpoint.hf_source_path": training.hf_model,
        "checkpoint.load": save_dir if resumes else "null",
        "logger.save_config_filepath": str(seen(places.resolved_config, mounts)),
        **_given(training),
    }


PROCESSOR_KEYS = ("dataset.task_encoder.hf_processor_path", "dataset.task_encoder.hf_processor_revision")
"""Keys of the processor and its revision, on every route: Bridge replaces the dataset before it applies overrides."""


def _processor(training: TrainingSettings) -> dict[str, str]:
    return dict(zip(PROCESSOR_KEYS, (training.hf_model, training.hf_revision), strict=True))


OPTIONAL_KEYS = {
    "tp": "model.tensor_model_parallel_size",
    "pp": "model.pipeline_model_parallel_size",
    "cp": "model.context_parallel_size",
    "ep": "model.expert_model_parallel_size",
    "etp": "model.expert_tensor_parallel_size",
    "eval_interval": "validation.eval_interval",
    "eval_iters": "validation.eval_iters",
}
"""Settings that default to the recipe's values, and their keys."""


def _given(training: TrainingSettings) -> dict[str, str]:
    given = {key: getattr(training, name) for name, key in OPTIONAL_KEYS.items()}
    return {key: str(value) for key, value in given.items() if value is not None}


def _lower(value: bool) -> str:
    return "true" if value else "false"


def seen(path: Path, mounts: tuple[Mount, ...]) -> Path:
    """Return the container's path; a path under no mount is returned unchanged, and the checks report it."""
    return inside(path, mounts) or path
