"""Results of cached tasks: a data root from another person never executes code."""

import base64
import json
import os
import pickle
from pathlib import Path

import pytest
from prefect import flow, task
from prefect.results import ResultRecord
from pydantic import BaseModel

from tasks.running.caching import ReceiptCache, stored_in
from tasks.running.result_storage import PlainResults

pytestmark = pytest.mark.usefixtures("prefect_server")


class Job(BaseModel):
    """A job whose work is always finished, so that only the result file decides about the cache."""

    runs: Path

    def cache_parts(self) -> dict[str, str]:
        return {"work": "the same"}

    def is_done(self) -> bool:
        return True


@task(name="cached", cache_policy=ReceiptCache())
def cached(job: Job) -> int:
    with job.runs.open("a") as file:
        file.write("x")
    return 7


@flow
def run_once(folder: str, job: Job) -> object:
    return stored_in(cached, Path(folder))(job)


class Payload:
    """Runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


def test_plain_result_is_a_cache_entry(tmp_path):
    job = Job(runs=tmp_path / "runs")
    assert [run_once(str(tmp_path / "results"), job) for _ in range(2)] == [7, 7]
    assert (tmp_path / "runs").read_text() == "x"


def _pickle(record: dict, marker: Path) -> dict:
    payload = base64.encodebytes(pickle.dumps(Payload(f"touch {marker}"))).decode()
    serializer = {"type": "pickle", "picklelib": "pickle"}
    return record | {"metadata": record["metadata"] | {"serializer": serializer}, "result": payload}


def _class_of_a_module_in_the_root(record: dict, marker: Path) -> dict:
    return record | {"result": json.dumps({"__class__": "hostile.Thing", "data": {}})}


def _exception_of_a_module_in_the_root(record: dict, marker: Path) -> dict:
    return record | {"result": json.dumps([{"__exc_type__": "hostile.Thing", "message": ""}])}


def _decoder(record: dict, marker: Path) -> dict:
    serializer = record["metadata"]["serializer"] | {"object_decoder": "hostile.Thing"}
    return record | {"metadata": record["metadata"] | {"serializer": serializer}, "result": json.dumps({"a": 1})}


def _json_library(record: dict, marker: Path) -> dict:
    serializer = record["metadata"]["serializer"] | {"jsonlib": "hostile"}
    return record | {"metadata": record["metadata"] | {"serializer": serializer}}


@pytest.mark.parametrize(
    ("hostile", "counts"),
    [
        (_pickle, False),
        (_class_of_a_module_in_the_root, False),
        (_exception_of_a_module_in_the_root, False),
        (_decoder, True),  # the value is plain, and the decoder that the file names is not called
        (_json_library, True),
    ],
)
def test_hostile_result_runs_no_code(tmp_path, monkeypatch, caplog, hostile, counts):
    results, marker = tmp_path / "results", tmp_path / "executed"
    module = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\nThing = dict\nloads = dict\n"
    for folder in (tmp_path, results):
        folder.mkdir(exist_ok=True)
        (folder / "hostile.py").write_text(module)
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(results)
    job = Job(runs=tmp_path / "runs")
    run_once(str(results), job)
    (entry,) = (path for path in results.iterdir() if path.suffix != ".py")
    entry.write_text(json.dumps(hostile(json.loads(entry.read_bytes()), marker)))

    result = run_once(str(results), job)

    assert not marker.exists()
    assert (tmp_path / "runs").read_text() == ("x" if counts else "xx")
    assert counts or result == 7
    assert counts or "is no cache entry" in caplog.text


def test_a_link_is_neither_read_nor_followed_when_written(tmp_path):
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    job = Job(runs=tmp_path / "runs")
    run_once(str(results), job)
    (entry,) = results.iterdir()
    elsewhere.write_bytes(entry.read_bytes())
    before = elsewhere.read_bytes()
    entry.unlink()
    entry.symlink_to(elsewhere)

    assert run_once(str(results), job) == 7

    assert (tmp_path / "runs").read_text() == "xx"
    assert elsewhere.read_bytes() == before
    assert not entry.is_symlink()


def test_nothing_but_the_value_is_taken_from_a_result(tmp_path):
    results = tmp_path / "results"
    job = Job(runs=tmp_path / "runs")
    run_once(str(results), job)
    (entry,) = results.iterdir()
    record = json.loads(entry.read_bytes())
    record["metadata"] |= {"storage_key": str(tmp_path / "elsewhere"), "expiration": "garbage", "storage_block_id": "x"}
    entry.write_text(json.dumps(record))

    read = ResultRecord.deserialize(PlainResults(basepath=str(results)).read_path(entry.name))

    assert run_once(str(results), job) == read.result == 7
    assert (tmp_path / "runs").read_text() == "x"
    assert read.metadata.storage_key == str(entry)
    assert read.metadata.storage_block_id is None and read.metadata.expiration is None


def test_a_pipe_is_no_cache_entry(tmp_path, caplog):
    results = tmp_path / "results"
    job = Job(runs=tmp_path / "runs")
    run_once(str(results), job)
    (entry,) = results.iterdir()
    entry.unlink()
    os.mkfifo(entry)

    assert run_once(str(results), job) == 7

    assert (tmp_path / "runs").read_text() == "xx"
    assert "is not a regular file" in caplog.text
