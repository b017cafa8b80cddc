"""Loading every sample through the real Energon, good samples and bad ones."""

import hashlib
import os
import re
from pathlib import Path

import pytest
import yaml

from tasks.contracts.errors import DatasetError
from tasks.contracts.settings import CheckSettings
from tasks.energon import loader
from tasks.energon.check import check_dataset, check_files
from tasks.energon.index import index_dataset
from tasks.energon.loader import check_loader, compare_keys
from tasks.io.fingerprints import Verify
from tests.tasks.energon.dataset import conversation, jpeg, make_dataset, sample, samples, uid

CHECK = CheckSettings(batch_size=2)
STAND_IN = "tasks.energon.stand_in.StandInWebdataset"


def content(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of the dataset itself."""
    files = [path for path in folder.rglob("*") if path.is_file() and ".prepare" not in path.parts]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_check_reads_every_sample_of_both_splits_once(indexed: Path) -> None:
    before = content(indexed)
    summary = check_dataset(indexed, CHECK)
    assert [(load.split, load.samples, load.sample_class) for load in summary.loaded] == [
        ("train", 5, STAND_IN),
        ("val", 2, STAND_IN),
    ]
    assert content(indexed) == before
    assert [load.unchanged for load in check_dataset(indexed, CHECK).loaded] == [True, True]
    assert not check_loader(indexed, "val", CheckSettings(verify="full")).unchanged


@pytest.mark.parametrize("verify", ["changed", "full"])
@pytest.mark.parametrize("name", ["train-shard-000077.tar", "junk.tar", "below/val-shard-000001.TAR"])
def test_tar_that_the_manifest_does_not_name_fails_the_check(indexed: Path, name: str, verify: Verify) -> None:
    stray = indexed / name
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"not a tar")
    with pytest.raises(DatasetError, match=re.escape(name)):
        check_files(indexed, CheckSettings(verify=verify))
    stray.unlink()
    check_files(indexed, CheckSettings(verify=verify))


def test_grey_and_cmyk_pictures_are_loaded_as_rgb_and_an_empty_val_split_passes(tmp_path: Path) -> None:
    make_dataset(tmp_path, train_0=[*sample(0, jpeg(0, "L")), *sample(1, jpeg(1, "CMYK"))])
    summary = index_dataset(tmp_path)
    assert (summary.train, summary.val) == (2, 0)
    assert "val split has no samples" in summary.notes[0]
    assert yaml.safe_load((tmp_path / ".nv-meta/split.yaml").read_text())["split_parts"]["val"] == []
    assert check_loader(tmp_path, "train", CHECK).samples == 2
    assert check_loader(tmp_path, "val", CHECK).samples == 0


def test_several_processes_share_a_split_and_tell_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_dataset(tmp_path, train_0=samples(range(7)), train_1=samples(range(7, 11)))
    index_dataset(tmp_path)
    monkeypatch.setattr(loader, "SAMPLES_PER_PROCESS", 1)
    told: list[int] = []
    assert check_loader(tmp_path, "train", CheckSettings(batch_size=2, loaders=3), told.append).samples == 11
    assert told[-1] == 11 and told == sorted(told)
    assert not (tmp_path / ".prepare/load-train.progress").exists()


def test_every_bad_sample_is_named_with_key_and_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_image = conversation(3)
    del no_image["conversation"][0]["content"][0]
    bad = [
        *sample(1, image=jpeg(1)[:-200]),
        *sample(2, image=b"<html>404</html>"),
        *sample(3, document=no_image),
        *sample(4, document=conversation(4, prompt="What?")),
        sample(5)[0],
        (f"{uid(5)}.conversation.json", b'{"conversation": ['),
    ]
    make_dataset(tmp_path, train_0=samples(range(1)), train_1=[*bad, *sample(6)])
    index_dataset(tmp_path)
    monkeypatch.setattr(loader, "SAMPLES_PER_PROCESS", 1)
    with pytest.raises(DatasetError) as raised:
        check_loader(tmp_path, "train", CheckSettings(batch_size=2, loaders=3))
    message = str(raised.value)
    assert "5 bad samples in train (of 7)" in message
    for number, cause in [
        (1, "truncated"),
        (2, "identify"),
        (3, "instead of an image"),
        (4, "'what?'"),
        (5, "jsondecodeerror"),
    ]:
        told = message.partition(f"{uid(number)} in train-shard-000001.tar: ")[2]
        assert cause in told.partition(uid(number + 1))[0].lower()
    assert not (tmp_path / ".prepare/load-train-receipt.json").exists()


def test_more_bad_samples_in_a_row_than_energon_bears_are_still_named(tmp_path: Path) -> None:
    picture = jpeg(0)
    bad = [part for number in range(1, 111) for part in sample(number, picture, conversation(number, prompt="What?"))]
    make_dataset(tmp_path, train_0=[*sample(0), *bad, *sample(111)])
    index_dataset(tmp_path)
    with pytest.raises(DatasetError, match=f"gave up before the end: {uid(1)} in train-shard-000000.tar: .*prompt"):
        check_loader(tmp_path, "train", CHECK)


def test_keys_that_are_lost_repeated_or_strange_are_named() -> None:
    answer = {"keys": ["a", "b", "b", "x"], "faults": [{"key": "c", "cause": "broken"}], "stopped": False}
    shards = dict.fromkeys("abcd", "train-shard-000000.tar")
    assert compare_keys(answer, shards) == [
        "c in train-shard-000000.tar: broken",
        "b in train-shard-000000.tar: loaded 2 times",
        "x in no shard of the split: not in the index",
        "d in train-shard-000000.tar: never loaded",
    ]


def install_bridge(folder: Path, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package ``megatron.bridge`` with the module of ``dataset.yaml`` for child processes."""
    place = folder / "megatron/bridge/data/energon"
    place.mkdir(parents=True)
    for package in (place, *list(place.parents)[:2]):
        (package / "__init__.py").touch()
    (place / "task_encoder_utils.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))


def test_megatron_bridges_own_class_is_used_where_it_is_installed(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "from tasks.energon.stand_in import StandInWebdataset\nclass ChatMLWebdataset(StandInWebdataset): pass\n"
    install_bridge(tmp_path / "bridge", module, monkeypatch)
    used = check_loader(indexed, "val", CHECK).sample_class
    assert used == "megatron.bridge.data.energon.task_encoder_utils.ChatMLWebdataset"


def test_nothing_stands_in_for_a_broken_megatron_bridge(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_bridge(tmp_path / "bridge", "import transformer_engine_that_is_not_there\n", monkeypatch)
    with pytest.raises(DatasetError, match="No module named 'transformer_engine_that_is_not_there'"):
        check_loader(indexed, "val", CHECK)
