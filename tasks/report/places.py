"""Where a report finds what earlier stages left, as the layout of a data root has it."""

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
    """A prepared dataset, the raw shards that it was made from, and what is known of them.

    ``audit_dir`` and ``data`` (the data root) are None where there is none: shards from elsewhere have neither.
    """

    dataset_dir: Path
    shards_dir: Path
    audit_dir: Path | None
    data: DataRoot | None

    @property
    def manifest(self) -> Path:
        """What the dataset is."""
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
        """Folder of the samples that were emitted, in the order of the output tars."""
        return self.prepare / "plan"

    @property
    def rejects(self) -> Path:
        """The samples that were not, in the order of reading."""
        return self.prepare / "rejects.parquet"

    def scan(self, tar: str) -> Path:
        """The scan table of the raw tar called ``tar``."""
        return self.prepare / "scan" / f"{Path(tar).stem}.parquet"

    def raw_table(self, tar: str) -> Path:
        """The downloader's own table of the raw tar called ``tar``; other sources of shards have none."""
        return self.shards_dir / f"{Path(tar).stem}.parquet"


def places_in_root(data: DataRoot, dataset_name: str) -> Places:
    """The dataset ``dataset_name`` of a data root. Raises DatasetError if it is not there."""
    return _existing(Places(data.dataset(dataset_name), data.shards, data.audit, data))


def places_of_dataset(dataset_dir: Path, shards_dir: Path | None = None) -> Places:
    """A dataset folder; its shards lie in ``raw/shards`` beside it unless named. Raises DatasetError."""
    data = DataRoot(dataset_dir.parent)
    shards = shards_dir or data.shards
    if not shards.is_dir():
        raise DatasetError(f"{shards} is not a folder: name the one that {dataset_dir} was made from (shards_dir)")
    return _existing(Places(dataset_dir, shards, default_audit_dir(shards), None if shards_dir else data))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in ``path``, or an empty one if there is no such file. Raises DatasetError if it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise DatasetError(f"{path} cannot be read as JSON: {error}; run the stage that writes it again") from None
    return value if isinstance(value, dict) else {}


def _existing(places: Places) -> Places:
    if not places.plan.is_file():
        raise DatasetError(
            f"{places.dataset_dir} holds no conversion ({places.plan} is missing); name the folder of a dataset that "
            "convert-dataset made"
        )
    return places
