"""convert-dataset while Dask workers, scheduler or flow die: a correct final state in bounded time, then a rerun."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import distributed  # noqa: F401  its defaults must be loaded before one is set
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import State

from flows.convert import ConvertResult, convert_dataset
from tests.conftest import ROOT
from tests.faults.marks import Faults, faults, processes_of
from tests.golden import EXPECTED, copy_shards, settings_of
from tests.tasks.raw_shards import files_under

__all__ = ["faults"]

CASE = EXPECTED["golden+defects"]["small_tars"]
SETTINGS = settings_of(CASE)
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return copy_shards("golden+defects", tmp_path / "raw")


@pytest.fixture
def faulty_workers(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inject the faults into the workers that this process starts."""
    for name, value in faults.environment.items():
        monkeypatch.setenv(name, value)


def profile(folder: Path, dask_section: str) -> str:
    path = folder / "profile.yaml"
    path.write_text(f"name: test\ndask: {dask_section}\n", encoding="utf-8")
    return str(path)


def convert(raw: Path, out: Path, cluster: str) -> State[ConvertResult]:
    return convert_dataset(raw, out, convert=SETTINGS, cluster=cluster, return_state=True)


def states_of(run: State[ConvertResult]) -> dict[str, str]:
    """Return the last state of each task run of a flow run, by name."""
    with get_client(sync_client=True) as client:
        only = FlowRunFilter.model_validate({"id": {"any_": [run.state_details.flow_run_id]}})
        return {task.name: task.state_name for task in client.read_task_runs(flow_run_filter=only)}


def is_golden(out: Path) -> bool:
    manifest = json.loads((out / "manifest.json").read_bytes())
    return (manifest["output_shards"], manifest["counts"]) == (CASE["output_shards"], CASE["counts"])


def until(reached: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.usefixtures("faulty_workers")
def test_a_shard_that_kills_its_workers_is_set_apart_and_named_and_a_rerun_does_the_rest(raw, tmp_path, faults):
    out, cluster = tmp_path / "out", profile(tmp_path, "{kind: local, workers: 2, memory: 600MiB}")
    faults.mark("scan-00000002", "memory")
    faults.mark("scan-00000001", "killed once")
    run = convert(raw, out, cluster)
    assert run.is_failed()
    assert "00000002.tar is needed but could not be scanned" in run.message and "worker died" in run.message
    assert {path.stem for path in (out / ".prepare" / "scan").glob("*.json")} == {"00000000", "00000001", "00000003"}
    # The plan is not made if a scan is missing.
    assert not (out / ".prepare" / "plan.json").exists() and not list(out.glob("*.tar"))
    states = states_of(run)
    assert states["scan-00000002"] == "Crashed" and states["scan-00000001"] == "Completed"
    assert "Running" not in states.values()

    faults.heal("scan-00000002")
    faults.mark("write-train-000001", "os._exit")
    faults.mark("write-val-000000", "sys.exit")
    begun = faults.times()
    run = convert(raw, out, cluster)
    assert run.is_failed()
    assert "writing of train-shard-000001.tar failed" in run.message
    assert "writing of val-shard-000000.tar failed" in run.message
    assert {work for work in faults.times() - begun if work.startswith("scan")} == {"scan-00000002"}
    missing = {"train-shard-000001.tar", "val-shard-000000.tar"}
    assert {path.name for path in out.glob("*.tar")} == {tar["filename"] for tar in CASE["output_shards"]} - missing
    assert not (out / "manifest.json").exists()
    assert "Running" not in states_of(run).values()

    faults.heal("write-train-000001")
    faults.heal("write-val-000000")
    begun = faults.times()
    assert convert(raw, out, cluster).is_completed()
    assert is_golden(out)
    assert set(faults.times() - begun) == {"write-train-000001", "write-val-000000"}


@contextmanager
def dask_program(faults: Faults, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=os.environ | faults.environment,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_scheduler_ends_the_flow_with_the_shards_that_were_out(raw, tmp_path, faults):
    out, file = tmp_path / "out", tmp_path / "scheduler.json"
    faults.mark("scan", "waits")
    place = ["--scheduler-file", str(file)]
    with (
        dask_program(
            faults, "distributed.cli.dask_scheduler", *place, "--host", "127.0.0.1", "--port", "0"
        ) as scheduler,
        dask_program(faults, "distributed.cli.dask_worker", *place, "--nthreads", "2"),
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
    ):
        until(file.exists)
        address = json.loads(file.read_bytes())["address"]
        cluster = profile(tmp_path, f"{{kind: address, address: '{address}', workers: 2}}")

        def kill() -> None:
            until(lambda: len(faults.ran()) == 2)
            scheduler.kill()

        run = _while(kill, lambda: convert(raw, out, cluster))
    assert run.is_failed()
    assert f"the Dask scheduler at {address} is gone; unfinished: scan of 00000000.tar" in run.message
    assert "Running" not in states_of(run).values()
    run = convert(raw, out, cluster)
    assert run.is_failed() and f"the Dask scheduler at {address} cannot be reached" in run.message


def _while(other: Callable[[], None], this: Callable[[], State[ConvertResult]]) -> State[ConvertResult]:
    import threading

    thread = threading.Thread(target=other)
    thread.start()
    try:
        return this()
    finally:
        thread.join()


def test_an_ended_flow_leaves_no_process_and_a_rerun_does_only_what_was_in_flight(
    raw, tmp_path, faults, prefect_server
):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "flows.convert", "--source-dir", str(raw), "--output-dir", str(out)]
    command += ["--convert.max-samples-per-tar", str(SETTINGS.max_samples_per_tar)]
    command += ["--convert.validation-fraction", str(SETTINGS.validation_fraction)]
    command += ["--cluster", profile(tmp_path, "{kind: local, workers: 2}")]
    environment = os.environ | faults.environment | {"PREFECT_API_URL": prefect_server}
    faults.mark("scan-00000002", "waits")
    for run, (number, status) in enumerate({signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 130}.items(), 1):
        flow = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True)
        until(lambda: (out / ".prepare" / "scan" / "00000003.json").exists())
        until(lambda: faults.times()["scan-00000002"] == run)  # noqa: B023
        flow.send_signal(number)
        _, errors = flow.communicate(timeout=60)
        until(lambda: not processes_of(faults), 60)
        assert flow.returncode == status, errors.decode()
    # The output after SIGTERM. After SIGKILL, Dask's workers print output that we do not control.
    assert b"interrupted; rerun the same command to resume" in errors and b"Traceback" not in errors, errors.decode()

    faults.heal("scan-00000002")
    subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, timeout=200)
    assert is_golden(out)
    assert {work: count for work, count in faults.times().items() if count > 1} == {"scan-00000002": 3}
    assert not files_under(out / ".prepare" / "staging")
