"""The folder layout of a data root."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from tasks.contracts.errors import SettingsError

DatasetName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""Name of a dataset's folder in a data root."""


def _usable_path(path: Any) -> Any:
    if path == "":
        raise ValueError("the path is empty; give one, or . for the folder you are in")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise ValueError("the path holds bytes that are no UTF-8; give a link to it whose name does not") from None
    return path


GivenPath = Annotated[Path, BeforeValidator(_usable_path), Field(json_schema_extra={"minLength": 1})]
"""A path from a user. It must not be empty, as from an unset shell variable, since that would mean the current folder.
It must be valid UTF-8, since JSON cannot hold another encoding."""


@dataclass(frozen=True)
class DataRoot:
    """The folders of one data root; docs/architecture.md describes them."""

    path: Path

    @property
    def metadata(self) -> Path:
        """Pinned metadata files and ``metadata-manifest.json``."""
        return self.path / "raw" / "metadata"

    @property
    def metadata_manifest(self) -> Path:
        """Receipt of the metadata stage."""
        return self.metadata / "metadata-manifest.json"

    @property
    def shards(self) -> Path:
        """Raw shards. Only img2dataset writes here."""
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
        """Python environment of the current img2dataset."""
        return self.path / "downloader-env-current"

    @property
    def official_env(self) -> Path:
        """Python environment of the official downloader."""
        return self.path / "downloader-env"

    @property
    def upstream(self) -> Path:
        """Checkout of the official DataComp repository."""
        return self.path / "datacomp-upstream"

    @property
    def results(self) -> Path:
        """Prefect's result storage: entries that point at receipts."""
        return self.path / ".prefect-results"

    def report(self, name: str) -> Path:
        """Return the path of a prepared dataset's report."""
        return self.path / "reports" / name / "index.html"

    def dataset(self, name: str = "energon") -> Path:
        """Return the folder of a prepared dataset."""
        return self.path / name

    def checkpoint(self, name: str) -> Path:
        """Return the folder of an imported Megatron checkpoint, which holds folders of iterations."""
        return self.path / "models" / name

    def training(self, name: str) -> Path:
        """Return the output folder of a training: checkpoints and the resolved configuration."""
        return self.path / "training" / name

    def training_log(self, name: str) -> Path:
        """Return the path of the log of all jobs of a training."""
        return self.training(name) / "log.json"

    def training_report(self, name: str) -> Path:
        """Return the path of a training's report."""
        return self.path / "reports" / "training" / name / "index.html"

    def launch(self, kind: str, name: str) -> Path:
        """Return the folder of the notes and logs of GPU jobs of one kind (the flow's name) and name."""
        return self.path / "launches" / f"{kind}-{name}"


_DEPLOYED = "PREFECT__FLOW_RUN_ID"
"""Environment variable that Prefect's workers set in the process of a flow run."""


def absolute(path: Path) -> Path:
    """Return ``path`` as an absolute path, since workers may run in other folders.

    Raises SettingsError for a relative path in a run that a Prefect worker started: the run's folder is temporary
    and is removed with its contents.
    """
    path = path.expanduser()
    if _DEPLOYED in os.environ and not path.is_absolute():
        raise SettingsError(
            f"the path {str(path)!r} is relative, and a run of a deployment has a folder of its own that is removed at "
            "its end; give an absolute path"
        )
    return path.absolute()


def default_audit_dir(shards_dir: Path) -> Path | None:
    """Return ``<root>/raw/audit`` if the shards are in ``<root>/raw/shards``, else None."""
    if shards_dir.name == "shards" and shards_dir.parent.name == "raw":
        return shards_dir.parent / "audit"
    return None
