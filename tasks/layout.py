"""Where everything lies in a data root."""

from dataclasses import dataclass
from pathlib import Path


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
        """The environment in which img2dataset runs."""
        return self.path / "downloader-env-current"

    @property
    def results(self) -> Path:
        """Prefect's result storage: entries that point at receipts."""
        return self.path / ".prefect-results"

    def dataset(self, name: str) -> Path:
        """A prepared dataset."""
        return self.path / name


def absolute(path: Path) -> Path:
    """``path`` as any process of this machine understands it: workers may run in other folders."""
    return path.expanduser().absolute()


def default_audit_dir(shards_dir: Path) -> Path | None:
    """``<root>/raw/audit`` when the shards lie in ``<root>/raw/shards``, else None."""
    if shards_dir.name == "shards" and shards_dir.parent.name == "raw":
        return shards_dir.parent / "audit"
    return None
