"""Where everything lies in a data root."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

DatasetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a dataset's folder in a data root."""


@dataclass(frozen=True)
class DataRoot:
    """The folders of one data root; the map is in docs/architecture.md."""

    path: Path

    @property
    def metadata(self) -> Path:
        """Pinned metadata files and ``metadata-manifest.json``."""
        return self.path / "raw" / "metadata"

    @property
    def metadata_manifest(self) -> Path:
        """The receipt of the metadata stage."""
        return self.metadata / "metadata-manifest.json"

    @property
    def shards(self) -> Path:
        """Image shards as img2dataset writes them; nothing else is ever written here."""
        return self.path / "raw" / "shards"

    @property
    def download(self) -> Path:
        """Receipt, log and notes of the image download."""
        return self.path / "raw" / "download"

    @property
    def audit(self) -> Path:
        """Shard index and audit receipts."""
        return self.path / "raw" / "audit"

    @property
    def downloader_env(self) -> Path:
        """The environment in which the current img2dataset runs."""
        return self.path / "downloader-env-current"

    @property
    def official_env(self) -> Path:
        """The environment in which the official downloader runs."""
        return self.path / "downloader-env"

    @property
    def upstream(self) -> Path:
        """The checkout of the official DataComp repository."""
        return self.path / "datacomp-upstream"

    @property
    def results(self) -> Path:
        """Prefect's result storage: entries that point at receipts."""
        return self.path / ".prefect-results"

    def report(self, name: str) -> Path:
        """The report of a prepared dataset."""
        return self.path / "reports" / name / "index.html"

    def dataset(self, name: str = "energon") -> Path:
        """A prepared dataset."""
        return self.path / name

    def checkpoint(self, name: str) -> Path:
        """An imported Megatron checkpoint: a folder of iterations."""
        return self.path / "models" / name

    def training(self, name: str) -> Path:
        """What a training leaves: checkpoints and its resolved configuration."""
        return self.path / "training" / name

    def training_log(self, name: str) -> Path:
        """What all jobs of a training logged."""
        return self.training(name) / "log.json"

    def training_report(self, name: str) -> Path:
        """The report of a training."""
        return self.path / "reports" / "training" / name / "index.html"

    def launch(self, kind: str, name: str) -> Path:
        """Notes and logs of the GPU jobs of one kind (the flow's name) and name."""
        return self.path / "launches" / f"{kind}-{name}"


def absolute(path: Path) -> Path:
    """``path`` as any process of this machine understands it: workers may run in other folders."""
    return path.expanduser().absolute()


def default_audit_dir(shards_dir: Path) -> Path | None:
    """``<root>/raw/audit`` when the shards lie in ``<root>/raw/shards``, else None."""
    if shards_dir.name == "shards" and shards_dir.parent.name == "raw":
        return shards_dir.parent / "audit"
    return None
