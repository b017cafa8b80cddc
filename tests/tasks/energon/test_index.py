"""Indexing with the real Energon: good datasets, damaged ones, and leftovers of earlier runs."""

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tasks.contracts.errors import DatasetError, GateError
from tasks.energon.index import check_index, index_dataset
from tasks.energon.manifest import read_manifest
from tests.tasks.energon.dataset import (
    good_dataset,
    make_dataset,
    sample,
    samples,
    uid,
    write_manifest,
    write_tar,
)

DATASET_YAML = """\
__module__: megatron.bridge.data.energon.task_encoder_utils
__class__: ChatMLWebdataset
field_map:
  imgs: image.jpg
  conversation: conversation.json
subflavors: {}
"""


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mtime and content of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_index_equals_the_manifest(indexed_once: Path) -> None:
    splits = yaml.safe_load((indexed_once / ".nv-meta/split.yaml").read_text())["split_parts"]
    counts = json.loads((indexed_once / ".nv-meta/.info.json").read_text())["shard_counts"]
    assert splits == {"train": ["train-shard-{000000..000001}.tar"], "val": ["val-shard-000000.tar"]}
    assert counts == {"train-shard-000000.tar": 3, "train-shard-000001.tar": 2, "val-shard-000000.tar": 2}
    check_index(indexed_once, read_manifest(indexed_once))


def test_dataset_yaml_is_the_contract_to_the_byte(indexed_once: Path) -> None:
    assert (indexed_once / ".nv-meta/dataset.yaml").read_text() == DATASET_YAML


def test_second_run_does_nothing(indexed: Path) -> None:
    before = state(indexed / ".nv-meta")
    summary = index_dataset(indexed)
    assert summary.unchanged
    assert (summary.shards, summary.train, summary.val) == (3, 5, 2)
    assert state(indexed / ".nv-meta") == before


def cut(tar: Path) -> None:
    tar.write_bytes(tar.read_bytes()[:-100])


def empty(tar: Path) -> None:
    tar.write_bytes(b"")


def flip(tar: Path) -> None:
    data = bytearray(tar.read_bytes())
    data[700] ^= 1
    tar.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (cut, "10140 bytes instead of 10240"),
        (empty, "0 bytes instead of"),
        (flip, "SHA-256"),
        (Path.unlink, "is missing"),
    ],
)
def test_damaged_tar_is_named_before_energon_sees_it(
    tmp_path: Path, damage: Callable[[Path], None], complaint: str
) -> None:
    damage(good_dataset(tmp_path) / "train-shard-000001.tar")
    with pytest.raises(DatasetError, match=f"train-shard-000001.tar .*{complaint}"):
        index_dataset(tmp_path)
    assert not (tmp_path / ".nv-meta").exists()


def test_tar_damaged_after_indexing_is_named(indexed: Path) -> None:
    flip(indexed / "val-shard-000000.tar")
    with pytest.raises(DatasetError, match=r"val-shard-000000\.tar has SHA-256"):
        index_dataset(indexed)


def test_tar_that_energon_cannot_read_is_an_error_though_its_hash_is_right(tmp_path: Path) -> None:
    folder = good_dataset(tmp_path)
    tar = folder / "train-shard-000001.tar"
    tar.write_bytes(b"not a tar".ljust(1024))
    manifest = json.loads((folder / "manifest.json").read_text())
    entry = next(shard for shard in manifest["output_shards"] if shard["filename"] == tar.name)
    entry |= {"size_bytes": 1024, "sha256": hashlib.sha256(tar.read_bytes()).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DatasetError, match=r"train-shard-000001\.tar cannot be read as a tar"):
        index_dataset(folder)


def test_unaccepted_dataset_is_not_indexed(tmp_path: Path) -> None:
    write_manifest(good_dataset(tmp_path), accepted=False)
    before = state(tmp_path)
    with pytest.raises(GateError):
        index_dataset(tmp_path)
    assert state(tmp_path) == before


def test_key_in_two_tars_names_key_and_both_tars(tmp_path: Path) -> None:
    make_dataset(tmp_path, train_0=samples(range(3)), val_0=samples(range(2, 4)))
    with pytest.raises(DatasetError, match=f"key {uid(2)} in train-shard-000000.tar and again in val-shard-000000.tar"):
        index_dataset(tmp_path)


def test_sample_without_its_conversation_is_named(tmp_path: Path) -> None:
    make_dataset(tmp_path, train_0=samples(range(2)), val_0=[*samples(range(2, 3)), sample(3)[0]])
    with pytest.raises(DatasetError, match=f"val-shard-000000.tar: sample {uid(3)} holds image.jpg;"):
        index_dataset(tmp_path)
    assert not (tmp_path / ".prepare/index-receipt.json").exists()


def test_killed_indexing_is_finished_by_the_next_run(tmp_path: Path) -> None:
    folder = good_dataset(tmp_path / "dataset")
    program = (
        f"from pathlib import Path; from tasks.energon.index import index_dataset; index_dataset(Path({str(folder)!r}))"
    )
    (tmp_path / "local disk").mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": str(tmp_path / "local disk"),
    }
    run = subprocess.Popen([sys.executable, "-c", program], env=environment)
    while not (folder / ".prepare/energon.log").exists() and run.poll() is None:
        time.sleep(0.002)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert not (folder / ".prepare/index-receipt.json").exists() and not (folder / ".nv-meta").exists()
    assert not index_dataset(folder).unchanged
    assert index_dataset(folder).unchanged


def test_new_conversion_is_indexed_anew(indexed: Path) -> None:
    write_tar(indexed / "val-shard-000000.tar", samples(range(5, 9)))
    write_manifest(indexed)
    summary = index_dataset(indexed)
    assert (summary.unchanged, summary.val) == (False, 4)


def stale_offsets(folder: Path) -> None:
    (folder / "val-shard-000000.tar.idx").write_bytes((folder / "train-shard-000000.tar.idx").read_bytes())


def lost_row(folder: Path) -> None:
    with sqlite3.connect(folder / ".nv-meta/index.sqlite") as database:
        database.execute("DELETE FROM samples WHERE sample_key = ?", (uid(1),))
    database.close()


def wrong_count(folder: Path) -> None:
    path = folder / ".nv-meta/.info.json"
    path.write_text(path.read_text().replace('"train-shard-000001.tar": 2', '"train-shard-000001.tar": 1'))


def wrong_split(folder: Path) -> None:
    (folder / ".nv-meta/split.yaml").write_text("split_parts: {test: [train-shard-000000.tar]}\nexclude: []\n")


def other_class(folder: Path) -> None:
    (folder / ".nv-meta/dataset.yaml").write_text(DATASET_YAML.replace("imgs", "image"))


TAMPERED = [
    (stale_offsets, "val-shard-000000.tar.idx does not belong to its tar"),
    (lost_row, "train-shard-000000.tar has 2 samples, the manifest says 3"),
    (wrong_count, "train-shard-000001.tar has 1 samples, the manifest says 2"),
    (wrong_split, "lists None as train"),
    (other_class, "dataset.yaml is not the one"),
    (lambda folder: (folder / ".nv-meta/index.sqlite").write_bytes(b"x" * 8192), "index.sqlite is missing or damaged"),
    (lambda folder: (folder / ".nv-meta/.info.json").write_text("{"), "info.json is missing or damaged"),
    (lambda folder: (folder / ".nv-meta/index.uuid").unlink(), "is not indexed: .nv-meta/index.uuid missing"),
    (lambda folder: (folder / "train-shard-000001.tar.idx").unlink(), "train-shard-000001.tar.idx missing"),
]


@pytest.mark.parametrize(("tamper", "complaint"), TAMPERED)
def test_index_that_differs_from_the_manifest_is_named(
    indexed: Path, tamper: Callable[[Path], None], complaint: str
) -> None:
    tamper(indexed)
    with pytest.raises(DatasetError, match=complaint):
        check_index(indexed, read_manifest(indexed))


def test_stale_offsets_are_indexed_again_with_the_same_receipt(indexed_once: Path, indexed: Path) -> None:
    stale_offsets(indexed)
    assert not index_dataset(indexed).unchanged
    check_index(indexed, read_manifest(indexed))
    receipt = Path(".prepare/index-receipt.json")
    assert (indexed / receipt).read_bytes() == (indexed_once / receipt).read_bytes()
    assert str(indexed) not in (indexed / receipt).read_text()


def test_debris_is_cleared_away_and_foreign_tars_are_left_alone(tmp_path: Path) -> None:
    folder = good_dataset(tmp_path)
    (folder / ".nv-meta").mkdir()
    debris = [".nv-meta/index.sqlite", ".nv-meta/index.sqlite-journal", "train-shard-000000.tar.idx"]
    for name in [*debris, "train-shard-000001.tar.idx.tmp", "val-shard-000007.tar.idx"]:
        (folder / name).write_bytes(b"debris")
    for name in ("train-shard-000002.tar", "train-shard-000000.old.tar", "other.tar"):
        write_tar(folder / name, samples(range(20, 22)))
    assert index_dataset(folder).shards == 3
    assert [path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == b"debris"] == []
    assert len(list(folder.glob("*.tar.idx"))) == 3
    assert len(list(folder.glob("*.tar"))) == 6
    assert "000002" not in (folder / ".nv-meta/.info.json").read_text()
