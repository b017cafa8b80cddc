"""A full temporary folder during indexing: the error names it and the fix, and with free space indexing succeeds."""

import tempfile
from pathlib import Path

import pytest

from tasks.contracts.errors import PipelineError
from tasks.energon.index import check_index, index_dataset
from tasks.energon.manifest import read_manifest
from tests.tasks.energon.dataset import make_dataset, samples
from tests.tasks.small_disk import small_disk


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return make_dataset(tmp_path / "dataset", train_0=samples(range(200)), val_0=samples(range(200, 203)))


@pytest.mark.parametrize("room", ["size=4k", "size=24k", "size=48k", "nr_inodes=2"])
def test_a_full_temporary_folder_is_named_with_the_way_out(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    with small_disk(tmp_path / "small", room) as disk:
        monkeypatch.setattr(tempfile, "tempdir", str(disk.folder))
        with pytest.raises(PipelineError, match="set TMPDIR to a local folder with more") as caught:
            index_dataset(dataset)
        assert str(disk.folder) in str(caught.value)
        assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)
        disk.remount("size=8m,nr_inodes=100")
        index_dataset(dataset)
    check_index(dataset, read_manifest(dataset))


def test_no_temporary_folder_at_all_is_told_in_the_same_words(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(PipelineError, match="set TMPDIR"):
        index_dataset(dataset)


def test_a_full_disk_of_the_dataset_is_not_told_as_one_of_the_temporary_folder(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "size=512k") as disk:
        made = make_dataset(disk.folder / "dataset", train_0=samples(range(100)), val_0=samples(range(100, 102)))
        with (disk.folder / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError):
            while True:
                filler.write(bytes(512))
        with pytest.raises(OSError) as caught:
            index_dataset(made)
        assert str(disk.folder) in str(caught.value)
