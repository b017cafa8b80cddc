"""Fixtures: one real Slurm for the whole session; without an installation tests are skipped, or fail in CI."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import SlurmCluster, missing_programs
from tests.slurm.configuration import Layout
from tests.slurm.pool import Pool

_CLUSTERS = {"slurm", "slurm_with_accounting"}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that need a Slurm."""
    if _CLUSTERS & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.slurm)


def require_slurm(accounting: bool = False) -> None:
    """Skip the test if Slurm is not installed; fail in CI."""
    missing = missing_programs(accounting)
    reason = f"no real Slurm here: {', '.join(missing)} missing; install with tests/slurm/install.sh"
    if not missing and os.geteuid() != 0:
        missing, reason = ["root"], "a Slurm of its own needs root (device files, several slurmd on one host)"
    if missing and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if missing:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    """Two CPU nodes, two GPU nodes, no accounting."""
    require_slurm()
    with SlurmCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_with_accounting() -> Iterator[SlurmCluster]:
    """The same with slurmdbd, enforced accounts and memory limits, and another layout."""
    require_slurm(accounting=True)
    # Node names become names of control groups, which all test sessions on this host share.
    layout = Layout(
        name="counted",
        cpu_nodes=1,
        gpu_nodes=1,
        cpu_prefix=f"n{os.getpid()}x",
        gpu_prefix=f"v{os.getpid()}x",
        accounting=True,
        cgroups=True,
        min_job_age=20,
    )
    with SlurmCluster(layout) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def pool(prefect_server: str, slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A Slurm work pool with a worker, on the cluster without accounting."""
    yield from _pool("plain", prefect_server, slurm, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="session")
def counted_pool(
    prefect_server: str, slurm_with_accounting: SlurmCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    """A Slurm work pool with a worker, on the cluster with accounting."""
    yield from _pool("counted", prefect_server, slurm_with_accounting, tmp_path_factory.mktemp("counted"))


def _pool(name: str, url: str, slurm: SlurmCluster, folder: Path) -> Iterator[Pool]:
    pool = Pool(name, url, slurm, folder)
    pool.create()
    pool.start_worker()
    try:
        yield pool
    finally:
        pool.kill_worker()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that jobs write to."""
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder
