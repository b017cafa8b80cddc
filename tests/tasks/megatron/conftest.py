"""A folder with everything a GPU job needs: data root, Bridge checkout, container image."""

from pathlib import Path

import pytest

from tests.tasks.megatron.jobs import bare_bridge, data_root, image


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = data_root(tmp_path)
    (root / "energon").mkdir()
    bare_bridge(tmp_path)
    image(tmp_path)
    return tmp_path
