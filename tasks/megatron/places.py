"""Where a GPU job reads and writes, on the host and as seen inside its container."""

from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.layout import DataRoot
from tasks.megatron.settings import CHECKPOINT_NAME, CheckpointSettings, GpuJobSettings, TrainingSettings

BRIDGE = Path("/opt/Megatron-Bridge")
"""Where the checkout lies inside the container; Bridge's launchers start their programs from there."""

FIRST_ITERATION = "iter_0000000"
TRACKER = "latest_checkpointed_iteration.txt"
"""Megatron's note of the newest checkpoint in a folder of checkpoints: its iteration, as text."""
RUN_CONFIG = "run_config.yaml"
"""Bridge's configuration in an iteration's folder, written after the tracker: only then the checkpoint is complete."""


@dataclass(frozen=True)
class Mount:
    """A folder of the host that the container sees."""

    host: Path
    container: Path

    def __str__(self) -> str:
        return str(self.host) if self.host == self.container else f"{self.host}:{self.container}"


def mounts_of(root: Path, job: GpuJobSettings) -> tuple[Mount, ...]:
    """The data root under its own name, the checkout, then what the settings add."""
    further = (text.partition(":") for text in job.mounts)
    return (
        Mount(root, root),
        Mount(job.bridge_dir, BRIDGE),
        *(Mount(Path(host), Path(container or host)) for host, _, container in further),
    )


def inside(path: Path, mounts: tuple[Mount, ...]) -> Path | None:
    """``path`` of the host as the container sees it; None if no mount holds it."""
    holding = [mount for mount in mounts if path.is_relative_to(mount.host)]
    if not holding:
        return None
    nearest = max(holding, key=lambda mount: len(mount.host.parts))
    return nearest.container / path.relative_to(nearest.host)


def imported_checkpoint(root: Path, checkpoint: CheckpointSettings) -> Path:
    """The folder that the import fills; its one iteration lies in ``iter_0000000``."""
    return DataRoot(root).checkpoint(checkpoint.name)


@dataclass(frozen=True)
class TrainingPlaces:
    """Where a training reads and writes, on the host."""

    dataset: Path
    checkpoint: Path
    save_dir: Path
    resolved_config: Path


def training_places(root: Path, training: TrainingSettings) -> TrainingPlaces:
    """The places that the settings name, and the usual ones of the data root for those that they leave open."""
    layout = DataRoot(root)
    folder = layout.training(training.name)
    return TrainingPlaces(
        dataset=training.dataset_dir or layout.dataset(),
        checkpoint=training.checkpoint or layout.checkpoint(CHECKPOINT_NAME) / FIRST_ITERATION,
        save_dir=folder / "checkpoints",
        resolved_config=folder / "resolved-config.yaml",
    )


def newest_checkpoint(save_dir: Path) -> int | None:
    """Iteration of the newest complete checkpoint in a folder; None if there is none."""
    try:
        iteration = int((save_dir / TRACKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    folder = save_dir / f"iter_{iteration:07d}"
    return iteration if holds_weights(folder) and (folder / RUN_CONFIG).is_file() else None


def holds_files(folder: Path) -> bool:
    """Whether there is anything in a folder."""
    return folder.is_dir() and any(folder.iterdir())


def holds_weights(iteration: Path) -> bool:
    """Return whether an iteration's folder holds anything besides Bridge's configuration."""
    return iteration.is_dir() and any(path.name != RUN_CONFIG for path in iteration.iterdir())
