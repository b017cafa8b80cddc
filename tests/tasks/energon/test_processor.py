"""Batches of a dataset, through the real Energon and then a Qwen VL processor, offline."""

import importlib.metadata
import importlib.util
import io
import json
import shutil
import tomllib
from pathlib import Path

import pytest
from huggingface_hub import constants
from packaging.requirements import Requirement
from PIL import Image

from flows.check import check_dataset
from tasks.contracts.errors import DatasetError, SettingsError
from tasks.contracts.settings import CheckSettings
from tasks.energon.index import index_dataset
from tasks.energon.processor import check_processor, processor_folder, table_rows
from tests.conftest import ROOT
from tests.tasks.energon.dataset import make_dataset, sample, samples, uid
from tests.tasks.energon.qwen import WITHOUT_MARKERS, make_processor

MODEL, COMMIT = "Qwen/Qwen3.6-35B-A3B", "995ad96eacd98c81ed38be0c5b274b04031597b0"


@pytest.fixture(scope="module")
def indexed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train samples 0 to 3, the last with a picture that every Qwen VL model rejects, and val samples 5 and 6."""
    file = io.BytesIO()
    Image.new("RGB", (510, 2)).save(file, "JPEG")
    train = [*samples(range(3)), *sample(3, file.getvalue())]
    folder = make_dataset(tmp_path_factory.mktemp("indexed") / "energon", train_0=train, val_0=samples(range(5, 7)))
    index_dataset(folder)
    return folder


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A processor for tests that only read it."""
    return make_processor(tmp_path_factory.mktemp("processor") / "qwen")


@pytest.fixture
def no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without internet access: only the hub's cache, which is empty."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.usefixtures("prefect_server")
def test_check_tells_shapes_and_selected_tokens_of_both_splits(indexed: Path, processor: Path) -> None:
    check = CheckSettings(processor=str(processor), processor_batches=2, processor_batch_size=2)
    summary = check_dataset(indexed, check)
    assert [load.samples for load in summary.loaded] == [4, 2]
    assert summary.processed is not None and "3 batches went through the processor" in summary.in_words()
    batches = summary.processed.batches
    assert [(batch.split, batch.input_ids[0]) for batch in batches] == [("train", 2), ("train", 1), ("val", 2)]
    for batch in batches:
        rows = batch.input_ids[0]
        assert (batch.input_ids, batch.pixel_values) == ((rows, 384), (864 * rows, 1536))
        assert batch.image_grid_thw == ((1, 24, 36),) * rows and all(0 < count < 20 for count in batch.selected)
    (refused,) = summary.processed.refused
    assert refused.startswith(f"{uid(3)} in train-shard-000000.tar: the picture of 510 x 2 is refused")
    assert table_rows(summary.processed)[0]["token ids"] == "[2, 384]"
    receipt = (indexed / ".prepare/process-receipt.json").read_text()
    assert json.loads(receipt)["counts"]["batches"][0]["input_ids"] == [2, 384] and str(processor) not in receipt

    again = check_processor(indexed, check)
    assert again is not None and again.unchanged and again.batches == summary.processed.batches
    assert check_processor(indexed, CheckSettings()) is None


def test_mask_that_selects_nothing_fails_the_check_by_key_and_shard(indexed: Path, tmp_path: Path) -> None:
    folder = make_processor(tmp_path / "qwen", WITHOUT_MARKERS)
    with pytest.raises(DatasetError) as raised:
        check_processor(indexed, CheckSettings(processor=str(folder), processor_batches=1))
    for key, shard in ((uid(0), "train-shard-000000.tar"), (uid(5), "val-shard-000000.tar")):
        assert f"{key} in {shard}: the loss mask selects nothing" in str(raised.value)
    assert not (indexed / ".prepare/process-receipt.json").exists()


def test_folder_that_holds_no_usable_processor_is_told(indexed: Path, processor: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SettingsError, match="empty holds no processor"):
        check_processor(indexed, CheckSettings(processor=str(tmp_path / "empty")))
    half = shutil.copytree(processor, tmp_path / "half")
    (half / "tokenizer.json").unlink()
    with pytest.raises(SettingsError, match="half cannot be used: "):
        check_processor(indexed, CheckSettings(processor=str(half)))


def test_model_of_the_hub_comes_from_its_cache_or_is_told_as_missing(no_hub: Path, processor: Path) -> None:
    with pytest.raises(SettingsError, match=r"Qwen3.6-35B-A3B cannot be fetched .*HF_HOME.*absolute path"):
        processor_folder(MODEL, COMMIT)
    place = no_hub / "models--Qwen--Qwen3.6-35B-A3B" / "snapshots" / COMMIT
    shutil.copytree(processor, place)
    assert processor_folder(MODEL, COMMIT) == place


def test_machine_without_the_package_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else real(name))
    with pytest.raises(SettingsError, match=r"install the extra `processor`"):
        processor_folder(MODEL, COMMIT)


def test_declared_versions_include_those_of_bridges_environment() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    words = [*project["dependencies"], *project["optional-dependencies"]["processor"]]
    allowed = {wanted.name: wanted.specifier for wanted in map(Requirement, words)}
    for package, versions in {
        "transformers": ("5.8.0", "5.12.1"),
        "tokenizers": ("0.22.2",),
        "huggingface-hub": ("1.5.0",),
    }.items():
        assert all(version in allowed[package] for version in (*versions, importlib.metadata.version(package)))
