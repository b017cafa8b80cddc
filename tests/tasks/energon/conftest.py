"""An indexed dataset, created once for each module: each start of Energon takes seconds."""

import shutil
from pathlib import Path

import pytest

from tasks.energon.index import index_dataset
from tests.tasks.energon.dataset import good_dataset


@pytest.fixture(scope="module")
def indexed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An indexed dataset for tests that only read it."""
    folder = good_dataset(tmp_path_factory.mktemp("indexed") / "größer als {1..2}: 100 %")
    index_dataset(folder)
    return folder


@pytest.fixture
def indexed(indexed_once: Path, tmp_path: Path) -> Path:
    """A copy of the indexed dataset for tests that change it."""
    return Path(shutil.copytree(indexed_once, tmp_path / "energon 2"))
