"""The Dask task runner hands task runs over without looking at what they are given."""

from dataclasses import dataclass

import pytest
from prefect import flow, task

from deployments.runner import ClusterRunner
from tasks.running.fanout import run_each


@dataclass(frozen=True)
class Job:
    """A job that must not be digested: with groups of shards that took longer than all else of a task run."""

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
