"""Checks of a GPU job before it is rendered; all problems are found and reported together."""

import os
import shutil
from pathlib import Path

from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DataRoot
from tasks.contracts.plain_text import plain_path
from tasks.megatron.places import (
    RUN_CONFIG,
    TRACKER,
    Mount,
    holds_files,
    imported_checkpoint,
    inside,
    mounts_of,
    newest_checkpoint,
    training_places,
)
from tasks.megatron.render import CONVERT, RUN_CONVERSION, RUN_RECIPE, TRAIN
from tasks.megatron.settings import CheckpointSettings, GpuJobSettings, TrainingSettings
from tasks.megatron.topology import faults_of_batches, faults_of_topology, import_topology, training_topology

_FOLDERS = frozenset({"HF_HOME", "HF_HUB_CACHE", "NEMO_HOME"})
"""Variables that name folders; the container must be able to see them."""

SLURM_COMMANDS = ("sbatch", "squeue", "scontrol", "scancel")


def check_import(root: Path, checkpoint: CheckpointSettings, joining: bool = False) -> None:
    """Check an import. Raises SettingsError with all problems.

    ``joining``: its job is already running and may have written to the checkpoint's folder.
    """
    faults = _common_faults(root, checkpoint, CONVERT if checkpoint.run_by == "launcher" else RUN_CONVERSION)
    faults += faults_of_topology(import_topology(checkpoint), gpus_of(checkpoint))
    target = imported_checkpoint(root, checkpoint)
    if holds_files(target) and not (checkpoint.overwrite or joining):
        faults.append(f"{target} is not empty: give another name, or set overwrite to replace what lies there")
    _raise(faults + _faults_of_model(checkpoint.hf_model, mounts_of(root, checkpoint)))


def check_training(root: Path, training: TrainingSettings, train_samples: int, val_samples: int) -> None:
    """Check a training. Raises SettingsError with all problems.

    ``train_samples``, ``val_samples``: numbers of samples in the dataset's manifest and index.
    """
    faults = _common_faults(root, training, TRAIN if training.run_by == "launcher" else RUN_RECIPE)
    if topology := training_topology(training):
        faults += faults_of_topology(topology, gpus_of(training))
        faults += faults_of_batches(training, topology, gpus_of(training))
    places, mounts = training_places(root, training), mounts_of(root, training)
    faults += _faults_of_samples(places.dataset, training, train_samples, val_samples)
    faults += _faults_of_path("dataset_dir", places.dataset, mounts)
    faults += _faults_of_path("checkpoint", places.checkpoint, mounts)
    faults += _faults_of_checkpoint(root, places.checkpoint)
    _raise(faults + _faults_of_model(training.hf_model, mounts))


def check_pipeline(root: Path, checkpoint: CheckpointSettings, training: TrainingSettings) -> None:
    """Check both jobs as far as possible without a dataset, whose preparation takes days. Raises SettingsError."""
    faults = _faults_of_root(root) + faults_of_topology(import_topology(checkpoint), gpus_of(checkpoint))
    if topology := training_topology(training):
        faults += faults_of_topology(topology, gpus_of(training))
        faults += faults_of_batches(training, topology, gpus_of(training))
    _raise(faults)


def check_launch(job: GpuJobSettings, mounts: tuple[Mount, ...]) -> None:
    """Check that this process can launch the job. Raises SettingsError."""
    wanted = SLURM_COMMANDS if job.run_by == "launcher" else ("srun",)
    faults = [f"{name} is not on the PATH: run this flow where Slurm's commands are" for name in wanted if _no(name)]
    faults += _faults_of_allocation(job, mounts) if job.run_by == "allocation" else _faults_of_waiting()
    _raise(faults)


def gpus_of(job: GpuJobSettings) -> int:
    """Return the number of GPUs of the whole job."""
    return job.nodes * job.gpus_per_node


def _common_faults(root: Path, job: GpuJobSettings, script: str) -> list[str]:
    faults = _faults_of_root(root)
    if not (job.bridge_dir / script).is_file():
        faults.append(f"bridge_dir {job.bridge_dir} holds no {script}: name a checkout of Megatron-Bridge")
    faults += _faults_of_image(job.container_image)
    faults += _faults_of_mounts(mounts_of(root, job))
    if job.run_by == "launcher":
        faults += _faults_of_env(job, mounts_of(root, job))
    return faults


def _faults_of_root(root: Path) -> list[str]:
    try:
        plain_path(root)
    except ValueError as error:
        return [f"root: {error}"]
    return []


def _faults_of_env(job: GpuJobSettings, mounts: tuple[Mount, ...]) -> list[str]:
    missing = [name for name in job.env if name not in os.environ]
    faults = [f"env: {name} is not set where this flow runs; export it there" for name in missing]
    for name in _FOLDERS.intersection(job.env).intersection(os.environ):
        faults += _faults_of_path(f"env: {name}", Path(os.environ[name]), mounts)
    return faults


def _faults_of_image(image: str) -> list[str]:
    if image.startswith("/"):
        return [] if Path(image).is_file() else [f"container_image {image} is not there"]
    if image.endswith(".sqsh"):
        return [f"container_image {image} looks like a file, but without a leading / it means a registry image"]
    return []


def _faults_of_mounts(mounts: tuple[Mount, ...]) -> list[str]:
    faults = [f"mount {mount}: {mount.host} is not a folder here" for mount in mounts if not mount.host.is_dir()]
    targets = [mount.container for mount in mounts]
    faults += [f"mount: {path} is the target of two mounts" for path in sorted(set(targets)) if targets.count(path) > 1]
    return faults


def _faults_of_path(name: str, path: Path, mounts: tuple[Mount, ...]) -> list[str]:
    hosts = ", ".join(str(mount.host) for mount in mounts)
    if inside(path, mounts) is None:
        return [f"{name} {path} lies under no mounted folder ({hosts}): the job could not see it; add it to mounts"]
    real = path.resolve()
    if not any(real.is_relative_to(mount.host.resolve()) for mount in mounts):
        return [f"{name} {path} is really {real}, under no mounted folder ({hosts}): add that folder to mounts"]
    return []


def _faults_of_model(hf_model: str, mounts: tuple[Mount, ...]) -> list[str]:
    return _faults_of_path("hf_model", Path(hf_model), mounts) if hf_model.startswith("/") else []


def _faults_of_checkpoint(root: Path, checkpoint: Path) -> list[str]:
    if not holds_files(checkpoint):
        return [f"checkpoint {checkpoint} is missing or empty: run import-checkpoint first"]
    # The converter writes the tracker, then the configuration; a checkpoint copied from elsewhere may lack both.
    ours = checkpoint.is_relative_to(DataRoot(root).checkpoint("x").parent)
    if ours and newest_checkpoint(checkpoint.parent) is None:
        wanted = f"it needs weights, {RUN_CONFIG}, and {TRACKER} beside it"
        return [f"checkpoint {checkpoint} is incomplete ({wanted}): import it again, overwriting"]
    return []


def _faults_of_samples(dataset: Path, training: TrainingSettings, train: int, val: int) -> list[str]:
    faults = []
    wanted = training.max_steps * training.global_batch_size
    if train < wanted:
        faults.append(
            f"{dataset} has {train} train samples, max_steps x global_batch_size asks for {wanted}: lower max_steps "
            "or prepare more"
        )
    if training.do_validation and not val:
        faults.append(f"{dataset} has no val samples: set do_validation to false, or convert with another fraction")
    return faults


def _faults_of_waiting() -> list[str]:
    """Return a problem if this flow holds GPUs: it only follows a job, which may be waiting for them."""
    held = os.environ.get("SLURM_GPUS_ON_NODE", "0") if "SLURM_JOB_ID" in os.environ else "0"
    if held in {"", "0"}:
        return []
    return [
        f"run_by is launcher, but this flow's own Slurm job holds {held} GPUs while it would wait for another job: "
        "start the deployment on a pool without GPUs (local), or set run_by to allocation"
    ]


def _faults_of_allocation(job: GpuJobSettings, mounts: tuple[Mount, ...]) -> list[str]:
    here = f"an allocation of {job.nodes} nodes with {job.gpus_per_node} GPUs each: start it in the Slurm pool"
    if "SLURM_JOB_ID" not in os.environ:
        return [f"run_by is allocation, but this is no Slurm job; it needs {here}"]
    faults = _faults_of_env(job, mounts)
    nodes, gpus = os.environ.get("SLURM_JOB_NUM_NODES", "1"), os.environ.get("SLURM_GPUS_ON_NODE", "0")
    if nodes != str(job.nodes):
        faults.append(f"this Slurm job has {nodes} nodes; it needs {here}")
    if job.gpu_resource_request and gpus != str(job.gpus_per_node):
        faults.append(f"this Slurm job has {gpus} GPUs on its node; it needs {here}")
    return faults


def _no(program: str) -> bool:
    return shutil.which(program) is None


def _raise(faults: list[str]) -> None:
    if faults:
        raise SettingsError("; ".join(faults))
