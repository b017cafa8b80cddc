"""The pipeline through the Slurm pool, set up as docs/slurm.md says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.slurm.cluster import SlurmCluster
from tests.slurm.pool import ROOT, Pool

# A job does not inherit the worker's environment; these variables configure this host's access to package registries.
NETWORK = ("PIP_", "UV_", "SSL_", "HTTP", "http", "NO_PROXY", "no_proxy", "REQUESTS_")


def command(url: str, *arguments: str) -> str:
    """Run a module of this environment in the project's folder; return its output."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | {"PREFECT_API_URL": url, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def site(prefect_server: str, slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A site: its profile, its pool, all deployments, and a worker."""
    folder = tmp_path_factory.mktemp("site")
    profile = folder / "site.yaml"
    env = {"PYTHONPATH": str(ROOT)} | {name: value for name, value in os.environ.items() if name.startswith(NETWORK)}
    variables = {"partition": "cpu", "log_dir": str(folder / "jobs"), "env": env}
    profile.write_text(yaml.safe_dump({"name": "site", "slurm": variables}))
    assert "Created" in command(prefect_server, "cli", "pool", "--cluster", str(profile))
    assert "Updated" in command(prefect_server, "cli", "pool", "--cluster", str(profile))
    command(prefect_server, "prefect", "work-pool", "create", "local", "--type", "process", "--overwrite")
    command(prefect_server, "prefect", "--no-prompt", "deploy", "--all")
    pool = Pool("slurm", prefect_server, slurm, folder)
    pool.start_worker()
    yield pool
    pool.kill_worker()


@pytest.fixture(scope="module")
def root(site: Pool) -> Path:
    """A data root that ``quickstart/slurm`` filled, started by ``prefect deployment run``."""
    root = site.folder / "data"
    command(site.url, "prefect", "deployment", "run", "quickstart/slurm", "-p", f"root={root}", "--watch")
    return root


def test_the_quickstart_slice_runs_through_the_slurm_pool(root: Path, site: Pool) -> None:
    manifest = json.loads((root / "energon" / "manifest.json").read_text())
    assert manifest["accepted"] and manifest["counts"]["train"] > 1000
    assert (root / "energon" / ".nv-meta" / "dataset.yaml").exists()


def test_stages_as_jobs_of_their_own_give_the_same_tars(root: Path, site: Pool) -> None:
    before = set(site.slurm.job_ids())
    parameters = ["-p", f"root={root}", "-p", f"dataset_slice={root / 'quickstart-slice.yaml'}"]
    parameters += ["-p", "dataset_name=again", "-p", "execution=deployments"]
    command(site.url, "prefect", "deployment", "run", "prepare-datacomp/slurm", *parameters, "--watch")
    # The parent and its six stages.
    assert len(set(site.slurm.job_ids()) - before) == 7
    shards = [json.loads((root / name / "manifest.json").read_text())["output_shards"] for name in ("energon", "again")]
    assert shards[0] == shards[1]
