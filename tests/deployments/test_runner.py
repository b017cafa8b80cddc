"""The Dask task runner passes jobs to task runs without inspecting their contents."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from prefect import flow, task

from deployments.dask import task_runner
from deployments.runner import ClusterRunner
from tasks.contracts.cluster_profile import ClusterProfile, LocalDask
from tasks.running.fanout import run_each


@dataclass(frozen=True)
class Job:
    """A job that must not be tokenized: for groups of shards, that took longer than the rest of a task run."""

    name: str

    def __dask_tokenize__(self) -> object:
        raise AssertionError("Dask digests the job")


@task
def name_of(job: Job) -> str:
    return job.name


@flow
def three_jobs() -> list[str]:
    workers = {"n_workers": 1, "processes": False, "dashboard_address": ":0"}
    with ClusterRunner(jobs_at_once=1, cluster_class="distributed.LocalCluster", cluster_kwargs=workers) as runner:
        jobs = [Job("first"), Job("second"), Job("second")]
        return sorted(outcome.result for outcome in run_each(runner, name_of, jobs, window=3))


@pytest.mark.usefixtures("prefect_server")
def test_every_job_is_run_and_none_is_digested():
    assert three_jobs() == ["first", "second", "second"]


ATTACK = """
import os
import sys
import distributed.comm.tcp  # imported first: the other user may not read this user's environment
from distributed import Client
if os.geteuid() == 0:
    os.setuid(65534)
try:
    client = Client(sys.argv[1], timeout=5)
    answer = client.run_on_scheduler(lambda: __import__("os").getuid())
except Exception as error:
    answer = type(error).__name__
print(answer, flush=True)
os._exit(0)
"""


def attack(address: str) -> str:
    """Connect to an address as another uid of this host (as this uid without root) and return the answer."""
    # Import first: the other user may not be able to read this user's environment.
    code = ATTACK.replace(
        "try:", "import os, distributed.comm.tcp\nif os.geteuid() == 0:\n    os.setuid(65534)\ntry:", 1
    )
    done = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, timeout=120, cwd="/")
    return done.stdout.strip() or done.stderr


@flow
def attacked() -> list[str]:
    """Let another process try the scheduler's address, as TLS without certificates and as plain TCP."""
    with task_runner(ClusterProfile(name="test", dask=LocalDask(workers=1))) as runner:
        assert [outcome.result for outcome in run_each(runner, name_of, [Job("ours")], window=1)] == ["ours"]
        address = runner.client.scheduler.address
        return [attack(each) for each in (address, address.replace("tls://", "tcp://"))]


@pytest.mark.usefixtures("prefect_server")
def test_another_process_of_the_host_cannot_use_the_local_dask_scheduler():
    answers = attacked()
    assert len(answers) == 2 and all(answer and not answer.isdigit() for answer in answers), answers
