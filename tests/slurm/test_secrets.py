"""A server with basic auth and a private CA: the job reaches it, and one file holds its secrets for a limited time."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_SSL_CERT_FILE, PREFECT_API_URL, temporary_settings
from prefect.states import Pending

from cli.server import free_port, prefect_api
from tests.slurm.cluster import SlurmCluster
from tests.slurm.pool import Pool
from tests.slurm.tls import certificate, in_front_of

API_KEY = "pnu_a-key-that-nobody-may-see"


@pytest.fixture
def guarded(state_home: Path, slurm: SlurmCluster, tmp_path: Path) -> Iterator[Pool]:
    """A pool with a worker on such a server."""
    files, port = certificate(tmp_path), free_port()
    with prefect_api(port=port), in_front_of(port, files) as secure:
        password = os.environ["PREFECT_API_AUTH_STRING"]
        url = f"https://127.0.0.1:{secure}/api"
        settings = {
            PREFECT_API_URL: url,
            PREFECT_API_AUTH_STRING: password,
            PREFECT_API_SSL_CERT_FILE: str(files[0]),
        }
        with temporary_settings(settings):
            pool = Pool("guarded", url, slurm, tmp_path)
            pool.create()
            pool.start_worker(
                PREFECT_API_AUTH_STRING=password, PREFECT_API_SSL_CERT_FILE=str(files[0]), PREFECT_API_KEY=API_KEY
            )
            try:
                yield pool
            finally:
                pool.kill_worker()


def test_a_job_reaches_a_guarded_server_and_its_secrets_are_seen_nowhere(guarded: Pool, shared: Path) -> None:
    password = os.environ["PREFECT_API_AUTH_STRING"]
    run_id = guarded.submit("show-job", {"folder": str(shared)})
    assert guarded.end(run_id, 180).state.is_completed()
    seen = dict(line.partition("=")[::2] for line in (shared / "environment").read_text().splitlines())
    assert (seen["PREFECT_API_AUTH_STRING"], seen["PREFECT_API_KEY"]) == (password, API_KEY)
    folder = guarded.folder / "jobs" / str(run_id) / "1"
    assert seen["PREFECT_API_SSL_CERT_FILE"] == str(folder / "ca.pem")
    guarded.until_true(lambda: not (folder / "environment").exists())
    (job,) = guarded.jobs_of(run_id)
    told = guarded.slurm.command("scontrol", "show", "job", str(job)) + guarded.logs(run_id)
    told += "".join(path.read_text() for path in folder.iterdir()) + (guarded.folder / "worker.log").read_text()
    assert not [secret for secret in (password, password.partition(":")[2], API_KEY) if secret in told]


def test_secrets_of_a_job_that_ended_without_a_worker_are_deleted_by_the_next_one(pool: Pool, shared: Path) -> None:
    run_id = pool.submit("nap", {"folder": str(shared), "seconds": 300})
    pool.until_true(lambda: (shared / "began").exists())
    pool.kill_worker()
    (shared / "stop").touch()
    assert pool.end(run_id).state.is_completed()
    pool.until_true(lambda: str(run_id) not in pool.slurm.command("squeue", "-h", "-O", "Command:4096"))
    environment = pool.folder / "jobs" / str(run_id) / "1" / "environment"
    assert environment.exists()
    pool.start_worker()
    pool.until_true(lambda: not environment.exists())


def test_secrets_of_a_run_that_never_became_a_job_are_deleted_when_it_is_scheduled_again(
    pool: Pool, shared: Path
) -> None:
    pool.kill_worker()
    run_id = pool.submit("nap", {"folder": str(shared)})
    lost = pool.folder / "jobs" / str(run_id) / "1"
    lost.mkdir(parents=True)
    (lost / "environment").touch()
    with pool.client() as client:
        client.set_flow_run_state(run_id, Pending())
    pool.start_worker()
    assert pool.end(run_id).state.is_completed()
    assert pool.attempts(run_id) == 2 and not (lost / "environment").exists()
