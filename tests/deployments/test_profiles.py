"""Cluster profiles: the errors for mistakes, and the worker jobs that result from valid ones."""

import os
import re
import shlex
import uuid
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, temporary_settings

from deployments.dask import task_runner, worker_count
from deployments.workers.local import local_cluster
from deployments.workers.node import job_memory, memory_limit, worker_arguments
from deployments.workers.slurm import WorkerJobContext
from deployments.workers.srun import read_allocation, step_environment
from tasks.contracts.cluster_profile import ClusterProfile, LocalDask, SlurmDask, lifetime_seconds, load_profile
from tasks.contracts.errors import SettingsError
from tasks.contracts.job_variables import time_limit_seconds
from tasks.slurm.job_folder import ENVIRONMENT_FILE
from tests.conftest import ROOT


@pytest.mark.parametrize("content", [b"", b"- a\n", b"{a: [", b"\xff\xfe\x00", b"name: 2026-02-30", b"[" * 9999])
def test_a_file_that_is_no_profile_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "odd.yaml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"odd\.yaml"):
        load_profile(str(path))


def written(folder: Path, text: str) -> str:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: x\ndask: {kind: slurm, wrokers: 3}", "dask.wrokers is unknown; known here: interface, job, jobs,"),
        ("name: x\ndask: {kind: slurm, job: {mme: 3G}}", "dask.job.mme is unknown; known here: account,"),
        ("name: x\nslurm: {partitoin: cpu}", "slurm.partitoin is unknown; known here: account,"),
        ("name: x\ncolour: red", "colour is unknown; known here: dask, name, plan_in_memory, slurm, task_runs"),
        ("name: x\ndask: {kind: slrum}", "expected tags: 'local', 'address', 'slurm', 'srun'"),
        ("name: x\ndask: {kind: local, memory: lots}", "dask.memory is 'lots'"),
        ("name: x\ndask: {kind: srun, workers: 0}", "dask.workers is 0: Input should be greater than or equal to 1"),
        ("name: x\ndask: {kind: address, address: 'host:1'}", "dask.address is 'host:1'"),
        ("name: x\ndask: {kind: slurm, jobs: 2, minimum_jobs: 5}", "minimum_jobs (5) is above jobs (2); lower"),
        ("name: x\ndask: {kind: slurm}\nslurm: {time_limit: '5'}", "leave nothing of the time limit 5; lower them"),
        ("dask: {kind: local}", "name: Field required"),
        ("[1, 2]", "the profile is [1, 2]"),
        ("name: [", "not YAML"),
    ],
)
def test_mistakes_in_a_profile_are_answered_with_file_key_value_and_way_out(tmp_path, text, words):
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_profile(path)
    assert words in str(caught.value) and path in str(caught.value)


@pytest.mark.parametrize("name", ["local", "slurm", "slurm-dask", "srun"])
def test_shipped_profiles_can_be_used(name):
    assert load_profile(name).name == name


def test_the_example_of_the_document_can_be_used(tmp_path):
    example = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8"), re.DOTALL)
    profile = load_profile(written(tmp_path, example[0]))
    assert worker_count(profile) == 8 * 64


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("1:30:00", 5400),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("2-12:30:05", 217_805),
        ("UNLIMITED", None),
        (None, None),
    ],
)
def test_time_limits_are_read_as_sbatch_reads_them(limit, seconds):
    assert time_limit_seconds(limit) == seconds


def site(folder: Path, **slurm: object) -> tuple[ClusterProfile, LocalDask, SlurmDask, WorkerJobContext]:
    dask = SlurmDask(jobs=2, job={"cpus_per_task": 8, "mem": "16G"})
    profile = ClusterProfile.model_validate({"name": "x", "dask": dask, "slurm": {"log_dir": str(folder), **slurm}})
    return profile, dask, WorkerJobContext(uuid.uuid4(), profile.worker_job(dask), folder)


def test_a_job_of_workers_asks_for_what_the_profile_says(tmp_path):
    own = {"partition": "cpu", "account": "vision", "qos": "long", "time_limit": "2:00:00", "mem": "4G", "nodes": 3}
    lines = {"extra_directives": ["--licenses=scratch"], "drop_directives": ["comment"], "setup": ["module load x"]}
    profile, dask, jobs = site(tmp_path, **own, **lines)
    script = jobs.script(jobs.prepare(), "python -m distributed.cli.dask_worker tls://10.0.0.1:1 --nthreads 1")
    for line in (
        "account=vision",
        "qos=long",
        "partition=cpu",
        "time=2:00:00",
        "licenses=scratch",
        "mem=16G",
        "nodes=1",
    ):
        assert f"#SBATCH --{line}\n" in script
    assert "--comment" not in script and "module load x" in script and "--no-requeue" in script
    assert lifetime_seconds(dask, jobs.variables) == 7200 - 300
    assert job_memory(jobs.variables) == 16 * 2**30
    assert "2147483648" in worker_arguments(dask, memory_limit(dask, job_memory(jobs.variables), 8))
    assert worker_count(profile) == 16


def test_secrets_reach_the_job_in_a_file_that_it_deletes_and_in_nothing_else(tmp_path):
    _, _, jobs = site(tmp_path, env={"PROXY": "secret-proxy"})
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api", PREFECT_API_KEY: "pnu_secret"}):
        job = jobs.prepare()
    file = job.folder / ENVIRONMENT_FILE
    assert "pnu_secret" in file.read_text() and "secret-proxy" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    script = jobs.script(job, "python -m x")
    assert "pnu_secret" not in script and "secret-proxy" not in script
    assert script.index(f". {file}") < script.index(f"rm -f {shlex.quote(str(file))}") < script.index("python -m x")


def test_a_step_inherits_nothing_of_slurm_but_its_job(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_NTASKS", "99")
    monkeypatch.setenv("SRUN_CPUS_PER_TASK", "99")
    environment = step_environment(load_profile("srun"))
    assert environment["SLURM_JOB_ID"] == "7"
    assert not {"SLURM_NTASKS", "SRUN_CPUS_PER_TASK"} & environment.keys()


def test_srun_outside_of_a_job_is_refused_before_anything_starts(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(SettingsError, match=r"this process runs in no Slurm job.*set dask.kind to slurm"):
        worker_count(load_profile("srun"))
    variables = {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_CPUS_ON_NODE": "8",
        "SLURM_MEM_PER_NODE": "512",
    }
    job = read_allocation(variables)
    assert (job.nodes, job.cpus_per_node, job.memory_per_node) == (3, 8, 2**29)


def test_an_unknown_interface_is_named(tmp_path):
    text = f"name: x\ndask: {{kind: slurm, interface: ib9}}\nslurm: {{log_dir: {tmp_path}}}"
    with (
        task_runner(load_profile(written(tmp_path, text))) as runner,
        pytest.raises(SettingsError, match=r"dask.interface is 'ib9'.*name one of this host's"),
    ):
        _ = runner.client
    assert not list(tmp_path.rglob("*.pem"))


def test_a_local_worker_has_dasks_own_environment_and_is_quiet():
    profile = ClusterProfile(name="one", dask=LocalDask(workers=1))
    task_runner(profile)
    with LocalCluster(**local_cluster(profile.dask)) as cluster, Client(cluster) as client:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "DASK_LOGGING__DISTRIBUTED")
        values = [next(iter(client.run(os.getenv, name).values())) for name in names]
    assert values == ["1", "1", "warning"]
