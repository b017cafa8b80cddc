"""Folders for GPU jobs: data root, image, and a checkout whose launchers submit to the tests' Slurm."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.megatron import slurm as slurm_tools
from tasks.megatron.launch import read_record
from tests.flows.test_ui import ui  # noqa: F401
from tests.slurm.cluster import SlurmCluster
from tests.tasks.megatron.jobs import data_root, image

BRIDGE = Path(__file__).parent / "bridge"


@pytest.fixture
def at_the_cluster(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    data_root(tmp_path)
    image(tmp_path)
    shutil.copytree(BRIDGE, tmp_path / "bridge")
    yield tmp_path
    for folder in (tmp_path / "root" / "launches").glob("*"):
        if record := read_record(folder):
            slurm_tools.cancel(record.job_id)
