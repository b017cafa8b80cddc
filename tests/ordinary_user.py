"""Folders that the user cannot read or write. Root can do everything, so tests/ordinary_user.sh runs these."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flows.audit import audit_download
from flows.convert import convert_dataset
from tests.golden import EXPECTED, copy_shards, settings_of

CASE = EXPECTED["golden"]["small_tars"]

pytestmark = pytest.mark.usefixtures("prefect_server")


@contextmanager
def mode(path: Path, bits: int) -> Iterator[Path]:
    """Give a path these permissions while the block runs."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield path
    finally:
        path.chmod(before)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return copy_shards("golden", tmp_path / "raw" / "shards")


def test_the_user_is_not_root() -> None:
    assert os.geteuid() != 0


def test_read_only_raw_shards_are_audited_and_converted(raw: Path, tmp_path: Path) -> None:
    for path in raw.iterdir():
        path.chmod(0o444)
    with mode(raw, 0o555):
        assert audit_download(raw, return_state=True).is_completed()
        assert convert_dataset(raw, tmp_path / "out", convert=settings_of(CASE), return_state=True).is_completed()


@pytest.mark.parametrize("suffix", [".tar", "_stats.json"])  # the audit reads no raw Parquet
def test_raw_file_closed_to_the_user_is_named(raw: Path, suffix: str) -> None:
    with mode(raw / f"00000001{suffix}", 0o000):
        state = audit_download(raw, return_state=True)
    assert state.is_failed() and f"00000001{suffix}" in state.message and "ermission" in state.message
    assert "Traceback" not in state.message
    assert audit_download(raw, return_state=True).is_completed()


def test_raw_tar_closed_to_the_user_fails_the_conversion(raw: Path, tmp_path: Path) -> None:
    with mode(raw / "00000001.tar", 0o000):
        state = convert_dataset(raw, tmp_path / "out", convert=settings_of(CASE), return_state=True)
    assert state.is_failed() and "00000001.tar" in state.message and "ermission" in state.message
    assert convert_dataset(raw, tmp_path / "out", convert=settings_of(CASE), return_state=True).is_completed()


@pytest.mark.parametrize("bits", [0o000, 0o555])
def test_folder_of_the_shards_or_the_output_closed_to_the_user_is_named(raw: Path, tmp_path: Path, bits: int) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    with mode(closed, bits):
        converted = convert_dataset(raw, closed / "out", convert=settings_of(CASE), return_state=True)
        audited = audit_download(raw, closed / "audit", return_state=True)
    for state in (converted, audited):
        assert state.is_failed() and str(closed) in state.message and "ermission" in state.message
        assert "Traceback" not in state.message


def test_unreadable_folder_of_shards_is_named(raw: Path, tmp_path: Path) -> None:
    with mode(raw, 0o000):
        states = [
            audit_download(raw, return_state=True),
            convert_dataset(raw, tmp_path / "out", convert=settings_of(CASE), return_state=True),
        ]
    for state in states:
        assert state.is_failed() and str(raw) in state.message and "ermission" in state.message
        assert "Traceback" not in state.message
