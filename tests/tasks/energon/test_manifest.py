"""Manifests that can be indexed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.contracts.errors import DatasetError, GateError
from tasks.energon.manifest import read_manifest
from tests.tasks.energon.dataset import good_dataset, write_manifest


def change(folder: Path, **changes: Any) -> None:
    """Replace top-level entries of the manifest."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_manifest_tells_the_samples_of_each_split(tmp_path: Path) -> None:
    manifest = read_manifest(good_dataset(tmp_path))
    assert manifest.samples_of("train") == {"train-shard-000000.tar": 3, "train-shard-000001.tar": 2}
    assert manifest.samples_of("val") == {"val-shard-000000.tar": 2}


def test_unaccepted_dataset_is_refused_as_a_gate(tmp_path: Path) -> None:
    good_dataset(tmp_path)
    write_manifest(tmp_path, accepted=False)
    with pytest.raises(GateError, match="accepted: false"):
        read_manifest(tmp_path)


def test_missing_manifest_says_convert_first(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="convert the dataset first"):
        read_manifest(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"counts": {"train": 6, "val": 2}}, "counts.train is 6, its output_shards hold 5"),
        ({"output_shards": []}, "counts.train is 5"),
        ({"output_shards": [], "counts": {"train": 0, "val": 0}}, "nothing to index"),
        ({"adaptation": {}}, "adaptation.prompt"),
        ({"accepted": None}, "accepted"),
    ],
)
def test_manifest_that_contradicts_itself_is_named(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    change(good_dataset(tmp_path), **changes)
    with pytest.raises(DatasetError, match=complaint):
        read_manifest(tmp_path)


def test_shard_outside_the_dataset_folder_is_refused(tmp_path: Path) -> None:
    shards = json.loads((good_dataset(tmp_path) / "manifest.json").read_text())["output_shards"]
    shards[0]["filename"] = "../train-shard-000000.tar"
    change(tmp_path, output_shards=shards)
    with pytest.raises(DatasetError, match=r"output_shards\.0\.filename"):
        read_manifest(tmp_path)


def test_damaged_manifest_is_no_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b'{"accepted": tr')
    with pytest.raises(DatasetError, match="not a usable manifest"):
        read_manifest(tmp_path)
