"""Paths of the files of earlier stages that a report reads."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.contracts.errors import DatasetError
from tasks.contracts.layout import DataRoot, default_audit_dir

MANIFEST = "manifest.json"
_PREPARE = ".prepare"


@dataclass(frozen=True)
class Places:
    """Paths of a prepared dataset, of its raw shards and of their audit.

    ``audit_dir`` and ``data`` (the data root) are None for raw shards from outside a data root.
    """

    dataset_dir: Path
    shards_dir: Path
    audit_dir: Path | None
    data: DataRoot | None

    @property
    def manifest(self) -> Path:
        """The dataset's manifest."""
        return self.dataset_dir / MANIFEST

    @property
    def prepare(self) -> Path:
        """The conversion's own folder."""
        return self.dataset_dir / _PREPARE

    @property
    def plan(self) -> Path:
        """The plan's head."""
        return self.prepare / "plan.json"

    @property
    def planned(self) -> Path:
        """Folder of the tables of emitted samples, in the order of the output shards."""
        return self.prepare / "plan"

    @property
    def rejects(self) -> Path:
        """The table of rejects, in the order in which samples were read."""
        return self.prepare / "rejects.parquet"

    def scan(self, tar: str) -> Path:
        """Return the path of the scan table of the raw tar ``tar``."""
        return self.prepare / "scan" / f"{Path(tar).stem}.parquet"

    def raw_table(self, tar: str) -> Path:
        """Return the path of the downloader's table of the raw tar ``tar``; shards from other sources have none."""
        return self.shards_dir / f"{Path(tar).stem}.parquet"


def places_in_root(data: DataRoot, dataset_name: str) -> Places:
    """Return the paths of the dataset ``dataset_name`` in a data root. Raises DatasetError if it is missing."""
    return _require_plan(Places(data.dataset(dataset_name), data.shards, data.audit, data))


def places_of_dataset(dataset_dir: Path, shards_dir: Path | None = None) -> Places:
    """Return the paths of a dataset folder; default raw shards: ``raw/shards`` beside it. Raises DatasetError."""
    data = DataRoot(dataset_dir.parent)
    shards = shards_dir or data.shards
    if not shards.is_dir():
        raise DatasetError(f"{shards} is not a folder: name the one that {dataset_dir} was made from (shards_dir)")
    return _require_plan(Places(dataset_dir, shards, default_audit_dir(shards), None if shards_dir else data))


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in ``path``; a missing file reads as an empty one. Raises DatasetError if it is corrupt."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DatasetError(f"{path} cannot be read as JSON: {error}; run the stage that writes it again") from None
    return value if isinstance(value, dict) else {}


def _require_plan(places: Places) -> Places:
    if not places.plan.is_file():
        raise DatasetError(
            f"{places.dataset_dir} is not a prepared dataset ({places.plan} is missing); name the folder of a "
            "dataset that convert-dataset made"
        )
    return places
