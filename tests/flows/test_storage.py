"""Faulty storage under a whole flow: it fails with a clear message, and the next run produces the right bytes."""

import hashlib
from pathlib import Path

import pytest

from flows.convert import convert_dataset
from tests.golden import EXPECTED, copy_shards, settings_of
from tests.tasks.small_disk import small_disk

CASE = EXPECTED["golden"]["small_tars"]

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_full_disk_fails_the_flow_in_words_and_room_finishes_it(tmp_path: Path) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    with small_disk(tmp_path / "disk", "size=400k") as disk:
        out = disk.folder / "out"
        state = convert_dataset(raw, out, convert=settings_of(CASE), return_state=True)
        assert state.is_failed() and state.message
        assert "the disk is full" in state.message and "start again" in state.message
        assert "Traceback" not in state.message
        disk.remount("size=64m")
        convert_dataset(raw, out, convert=settings_of(CASE))
        written = {tar.name: hashlib.sha256(tar.read_bytes()).hexdigest() for tar in out.glob("*.tar")}
    assert written == {tar["filename"]: tar["sha256"] for tar in CASE["output_shards"]}


def test_read_only_folder_fails_the_flow_in_words(tmp_path: Path) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        disk.remount("ro")
        state = convert_dataset(raw, disk.folder / "out", return_state=True)
    assert state.is_failed() and state.message
    assert str(tmp_path / "disk" / "out") in state.message and "read-only" in state.message
