"""Where everything lies in a data root."""

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
"""A path that somebody gave. An empty text, as of a variable that is not set, would mean the folder one is in; a name
in another encoding could not be written down in JSON."""


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


_DEPLOYED = "PREFECT__FLOW_RUN_ID"
"""Set by Prefect's workers for the flow run that a process was started for."""


def absolute(path: Path) -> Path:
    """``path`` as any process of this machine understands it: workers may run in other folders.

    Raises SettingsError for a relative one in a run that a worker started: its folder is a temporary one, which is
    removed with all that lies in it.
    """
    path = path.expanduser()
    if _DEPLOYED in os.environ and not path.is_absolute():
        raise SettingsError(
            f"the path {str(path)!r} is relative, and a run of a deployment has a folder of its own that is removed at "
            "its end; give an absolute path"
        )
    return path.absolute()


def default_audit_dir(shards_dir: Path) -> Path | None:
    """``<root>/raw/audit`` when the shards lie in ``<root>/raw/shards``, else None."""
    if shards_dir.name == "shards" and shards_dir.parent.name == "raw":
        return shards_dir.parent / "audit"
    return None
