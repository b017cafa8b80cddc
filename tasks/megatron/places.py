"""Paths that a GPU job reads and writes, on the host and inside its container."""

from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.megatron.settings import CHECKPOINT_NAME, CheckpointSettings, GpuJobSettings, TrainingSettings

BRIDGE = Path("/opt/Megatron-Bridge")
"""Path of the checkout inside the container; Bridge's launchers start their programs from there."""

FIRST_ITERATION = "iter_0000000"
TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's file with the iteration of the newest checkpoint in a folder of checkpoints, as text."""
RUN_CONFIG = "run_config.yaml"
"""Bridge's configuration in an iteration's folder; it is written after the tracker and completes the checkpoint."""


@dataclass(frozen=True)
class Mount:
    """A folder of the host that is mounted into the container."""

    host: Path
    container: Path

    def __str__(self) -> str:
        return str(self.host) if self.host == self.container else f"{self.host}:{self.container}"


def mounts_of(root: Path, job: GpuJobSettings) -> tuple[Mount, ...]:
    """Return the mounts: the data root under its own path, the checkout, then those of the settings."""
    further = (text.partition(":") for text in job.mounts)
    return (
        Mount(root, root),
        Mount(job.bridge_dir, BRIDGE),
        *(Mount(Path(host), Path(container or host)) for host, _, container in further),
    )


def inside(path: Path, mounts: tuple[Mount, ...]) -> Path | None:
    """Return the container's path for the host's ``path``, or None if it is under no mount."""
    holding = [mount for mount in mounts if path.is_relative_to(mount.host)]
    if not holding:
        return None
    nearest = max(holding, key=lambda mount: len(mount.host.parts))
    return nearest.container / path.relative_to(nearest.host)


def imported_checkpoint(root: Path, checkpoint: CheckpointSettings) -> Path:
    """Return the folder of the imported checkpoint; its only iteration is in ``iter_0000000``."""
    return DataRoot(root).checkpoint(checkpoint.name)


@dataclass(frozen=True)
class TrainingPlaces:
    """Paths that a training reads and writes, on the host."""

    dataset: Path
    checkpoint: Path
    save_dir: Path
    resolved_config: Path


def training_places(root: Path, training: TrainingSettings) -> TrainingPlaces:
    """Return the paths from the settings, with defaults in the data root for those that are not set."""
    layout = DataRoot(root)
    folder = layout.training(training.name)
    return TrainingPlaces(
        dataset=training.dataset_dir or layout.dataset(),
        checkpoint=training.checkpoint or layout.checkpoint(CHECKPOINT_NAME) / FIRST_ITERATION,
        save_dir=folder / "checkpoints",
        resolved_config=folder / "resolved-config.yaml",
    )


def newest_checkpoint(save_dir: Path) -> int | None:
    """Return the iteration of the newest checkpoint in a folder, or None if there is none or it is incomplete."""
    try:
        iteration = int((save_dir / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    folder = save_dir / f"iter_{iteration:07d}"
    return iteration if holds_weights(folder) and (folder / RUN_CONFIG).is_file() else None


def holds_files(folder: Path) -> bool:
    """Return whether a folder exists and is not empty."""
    return folder.is_dir() and any(folder.iterdir())


def holds_weights(iteration: Path) -> bool:
    """Return whether an iteration's folder contains anything other than Bridge's configuration."""
    return iteration.is_dir() and any(path.name != RUN_CONFIG for path in iteration.iterdir())
