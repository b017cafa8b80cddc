"""Audit and conversion on Dask workers of a real Slurm with two nodes."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.sorting import ArtifactSort

from deployments.workers import slurm as workers
from flows.audit import audit_download
from flows.convert import convert_dataset
from tests.conftest import ROOT
from tests.faults.marks import Faults, faults
from tests.golden import EXPECTED, copy_shards, settings_of
from tests.slurm.cluster import SlurmCluster

__all__ = ["faults"]

SETTINGS = settings_of(EXPECTED["golden"]["small_tars"])
TARS = {tar["filename"]: tar["sha256"] for tar in EXPECTED["golden"]["small_tars"]["output_shards"]}
BOTH = {"c1", "c2"}
pytestmark = pytest.mark.usefixtures("prefect_server")
Profile = Callable[..., str]


@pytest.fixture(autouse=True)
def in_the_cluster(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the cluster from this process, with variables that could change its jobs; check that no job remains."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SBATCH_PARTITION", "nonsense")
    monkeypatch.setenv("SLURM_NNODES", "7")
    monkeypatch.setattr(workers, "CHECK_SECONDS", 1.0)
    yield
    until(lambda: not jobs(slurm), 30)


@pytest.fixture
def profile(tmp_path: Path, faults: Faults) -> Profile:
    """Return a function that writes a site's profile; its workers record their work."""

    def write(dask: dict[str, Any], **slurm: Any) -> str:
        path = tmp_path / f"{uuid.uuid4()}.yaml"
        site = {"partition": "cpu", "time_limit": "30", "log_dir": str(tmp_path / "jobs"), "env": faults.environment}
        nodes = {"interface": "lo", "local_directory": str(tmp_path), "workers": 1, **dask}
        path.write_text(yaml.safe_dump({"name": "site", "dask": nodes, "slurm": {**site, **slurm}}))
        return str(path)

    return write


def jobs(slurm: SlurmCluster) -> list[str]:
    """Return the ids of pending and running jobs."""
    return slurm.command("squeue", "-h", "-t", "pending,running", "-o", "%i").split()


def until(reached: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def nodes(faults: Faults, stage: str) -> set[str]:
    """Return the nodes that have begun work of a stage."""
    return {node for work, node, _ in faults.ran() if work.startswith(stage)}


@contextmanager
def spread_over_both_nodes(faults: Faults, *stages: str) -> Iterator[None]:
    """Hold back the work of each stage until both nodes have begun some."""
    for stage in stages:
        faults.mark(stage, "waits")

    def release() -> None:
        for stage in stages:
            try:
                until(lambda: nodes(faults, stage) == BOTH)  # noqa: B023
            finally:  # the flow must end, so that the test can fail
                faults.heal(stage)

    thread = threading.Thread(target=release)
    thread.start()
    yield
    thread.join()
    assert {stage: nodes(faults, stage) for stage in stages} == dict.fromkeys(stages, BOTH)


def hashes(manifest_folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every output tar."""
    done = subprocess.run(
        "sha256sum *.tar", shell=True, cwd=manifest_folder, capture_output=True, text=True, check=True
    )
    return {name: digest for digest, name in map(str.split, done.stdout.splitlines())}


def test_audit_and_conversion_on_two_nodes_give_the_bytes_of_one_worker(
    slurm: SlurmCluster, profile: Profile, faults: Faults, tmp_path: Path
) -> None:
    raw = copy_shards("golden", tmp_path / "raw" / "shards")
    with spread_over_both_nodes(faults, "audit"):
        # Grows from one job to two because work is waiting.
        audit_download(raw, cluster=profile({"kind": "slurm", "jobs": 2, "minimum_jobs": 1}, exclusive=True))
    with spread_over_both_nodes(faults, "scan", "write"):
        convert_dataset(raw, tmp_path / "out", convert=SETTINGS, cluster=profile({"kind": "slurm"}, exclusive=True))
    assert hashes(tmp_path / "out") == TARS
    assert max(faults.times().values()) == 1
    left = {path.name for path in (tmp_path / "jobs").rglob("*") if path.is_file()}
    assert left - {"ca.pem"} == {"job.log", "job.sh", "receipt.json"}
    with get_client(sync_client=True) as client:
        links = {a.key: a for a in reversed(client.read_artifacts(sort=ArtifactSort.CREATED_DESC))}
    assert "tls://127.0.0.1:" in links["dask-dashboard"].description
    assert (tmp_path / "out" / ".prepare" / "dask-report.html").as_uri() in links["dask-report"].data


def test_srun_starts_workers_on_all_nodes_of_the_flows_own_job(
    slurm: SlurmCluster, profile: Profile, faults: Faults, tmp_path: Path, prefect_server: str
) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    command = [sys.executable, "-m", "flows.convert", "--source-dir", str(raw), "--output-dir", str(tmp_path / "out")]
    command += [
        "--convert.max-samples-per-tar",
        str(SETTINGS.max_samples_per_tar),
        "--cluster",
        profile({"kind": "srun"}),
    ]
    command += ["--convert.validation-fraction", str(SETTINGS.validation_fraction)]
    script = tmp_path / "job.sh"
    script.write_text(
        f"#!/bin/bash\nexport PYTHONPATH={ROOT} PREFECT_API_URL={prefect_server}\n"
        f"export PREFECT_API_AUTH_STRING={os.environ['PREFECT_API_AUTH_STRING']}\n{shlex.join(command)}\n"
    )
    with spread_over_both_nodes(faults, "scan", "write"):
        size = ["--nodes=2", "--exclusive", "--partition=cpu", "--wait", f"--output={tmp_path}/log"]
        slurm.command("sbatch", *size, str(script), timeout=200)
    assert hashes(tmp_path / "out") == TARS


@pytest.mark.parametrize(
    ("dask", "slurm_section", "words"),
    [
        ({}, {"partition": "nonsense"}, ["not submitted", "invalid partition"]),
        ({}, {"time_limit": "3-00:00:00"}, ["PartitionTimeLimit: will never start", "ask for less time"]),
        ({"startup_seconds": 3}, {"extra_directives": ["--begin=now+1hour"]}, ["PENDING: BeginTime", "within 3 s"]),
        ({}, {"setup": ["exit 3"]}, ["FAILED (exit code 3", "job.log"]),
    ],
    ids=["refused", "pending for ever", "pending too long", "broken set-up"],
)
def test_workers_that_never_appear_end_the_flow_and_are_explained(
    profile: Profile, tmp_path: Path, dask: dict[str, Any], slurm_section: dict[str, Any], words: list[str]
) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    cluster = profile({"kind": "slurm", "jobs": 1, **dask}, **slurm_section)
    state = convert_dataset(raw, tmp_path / "out", convert=SETTINGS, cluster=cluster, return_state=True)
    assert state.is_failed()
    for part in (*words, "no Dask worker came to tls://127.0.0.1:"):
        assert part in state.message
    assert not (tmp_path / "out" / "manifest.json").exists()


def ever_submitted(slurm: SlurmCluster, tmp_path: Path) -> int:
    """Count the jobs of this test's workers that Slurm knows, including finished ones."""
    return slurm.command("squeue", "-h", "-t", "all", "-O", "Command:4096").count(f"{tmp_path}/")


def test_workers_are_submitted_again_when_the_controller_is_back(
    slurm: SlurmCluster, profile: Profile, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    slurm.wait_saved()
    slurm.stop_controller()

    def come_back() -> None:
        try:
            until(lambda: "Slurm has not answered" in caplog.text)
            time.sleep(25)  # longer than the flow's timeout for workers, if the outage counted
        finally:
            slurm.start_controller()

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        cluster = profile({"kind": "slurm", "jobs": 2, "startup_seconds": 20})
        convert_dataset(raw, tmp_path / "out", convert=SETTINGS, cluster=cluster)
    finally:
        thread.join()
    assert hashes(tmp_path / "out") == TARS
    assert ever_submitted(slurm, tmp_path) == 2


def test_a_controller_that_stays_away_ends_the_flow_after_the_pools_patience(
    slurm: SlurmCluster, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_INTEGRATIONS_SLURM_WORKER_SUBMIT_PATIENCE_SECONDS", "3")
    raw = copy_shards("golden", tmp_path / "raw")
    slurm.wait_saved()
    slurm.stop_controller()
    try:
        cluster = profile({"kind": "slurm", "jobs": 1})
        state = convert_dataset(raw, tmp_path / "out", convert=SETTINGS, cluster=cluster, return_state=True)
    finally:
        slurm.start_controller()
    assert state.is_failed() and "and none will: Slurm has not answered for 0:00:" in state.message
    assert "startup_seconds" not in state.message and "PartitionTimeLimit" not in state.message


def test_a_submission_that_slurm_took_without_an_answer_is_not_repeated(
    slurm: SlurmCluster, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    sbatch = tmp_path / "bin" / "sbatch"
    real = shutil.which("sbatch", path=os.environ["PATH"])
    sbatch.write_text(
        f'#!/bin/bash\n{real} "$@" && [ -e {tmp_path}/again ] && exit\n'
        f"touch {tmp_path}/again; echo 'sbatch: error: Socket timed out on send/recv operation' >&2; exit 1\n"
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    raw = copy_shards("golden", tmp_path / "raw")
    convert_dataset(raw, tmp_path / "out", convert=SETTINGS, cluster=profile({"kind": "slurm", "jobs": 1}))
    assert hashes(tmp_path / "out") == TARS
    assert ever_submitted(slurm, tmp_path) == 1


def test_a_lost_node_is_replaced_and_a_killed_flow_leaves_no_job(
    slurm: SlurmCluster, profile: Profile, faults: Faults, tmp_path: Path, prefect_server: str
) -> None:
    raw = copy_shards("golden", tmp_path / "raw")
    faults.mark("scan", "waits")
    command = [sys.executable, "-m", "flows.convert", "--source-dir", str(raw), "--output-dir", str(tmp_path / "out")]
    flow = subprocess.Popen(
        [*command, "--cluster", profile({"kind": "slurm", "jobs": 1})],
        env=os.environ | {"PREFECT_API_URL": prefect_server, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    until(lambda: bool(nodes(faults, "scan")))
    first = jobs(slurm)
    slurm.command("scancel", *first)
    until(lambda: len(jobs(slurm)) == 1 and jobs(slurm) != first)
    begun = len(faults.ran())
    until(lambda: len(faults.ran()) > begun)
    os.killpg(flow.pid, signal.SIGKILL)
    flow.wait()
    faults.heal("scan")
    until(lambda: not jobs(slurm))
