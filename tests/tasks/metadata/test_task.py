"""The stage as a flow calls it: the functions of its tasks, one job for each file, then the manifest."""

import subprocess
import sys
from pathlib import Path

from tasks.metadata.fetch import fetch_jobs
from tasks.metadata.manifest import MANIFEST_NAME, read_manifest
from tasks.metadata.slices import SliceFile
from tasks.metadata.task import fetch_metadata_file, write_metadata_manifest
from tests.tasks.metadata.conftest import ServeHub
from tests.tasks.metadata.samples import make_slice


def test_the_stage_fetches_every_file_and_writes_the_manifest(tmp_path: Path, serve: ServeHub, pins: list[SliceFile]):
    folder, small = tmp_path / "metadata", make_slice(*pins)
    jobs = fetch_jobs(folder, small)
    assert not any(job.is_done() for job in jobs)
    with serve():
        assert [fetch_metadata_file.fn(job)["name"] for job in jobs] == [pin.name for pin in pins]
    assert all(job.is_done() for job in jobs)
    summary = write_metadata_manifest.fn(folder, small)
    manifest = read_manifest(folder)
    assert manifest and summary == manifest.summary(folder / MANIFEST_NAME)
    assert (summary.files, summary.rows, summary.metadata_sha256) == (4, 160, small.metadata_sha256)


def test_task_runs_are_named_after_the_file(tmp_path: Path, pins: list[SliceFile]):
    (job, *_) = fetch_jobs(tmp_path, make_slice(*pins))
    assert str(fetch_metadata_file.task_run_name).format(job=job) == "metadata-a.parquet"


def test_the_work_is_the_same_wherever_it_is_fetched_from(tmp_path: Path, pins: list[SliceFile]):
    (job, *_) = fetch_jobs(tmp_path, make_slice(*pins))
    elsewhere = job.model_copy(update={"folder": tmp_path / "elsewhere"})
    assert job.cache_parts() == elsewhere.cache_parts()


def test_the_stage_runs_without_prefect():
    code = "import sys, tasks.metadata.fetch, tasks.metadata.manifest; sys.exit('prefect' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
