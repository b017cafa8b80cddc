"""convert-dataset and audit-download on a real Prefect server and real Dask workers."""

import hashlib
import json
import logging
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.sorting import ArtifactSort

from flows import convert
from flows.audit import audit_download
from flows.convert import convert_dataset
from tasks.contracts.errors import GateError
from tasks.contracts.settings import ConvertSettings, GateSettings
from tasks.status.overview import read_status
from tests.golden import EXPECTED, copy_shards, settings_of
from tests.tasks.raw_shards import sample, write_shard

CASE = EXPECTED["golden+defects"]["small_tars"]

pytestmark = pytest.mark.usefixtures("prefect_server")


def cluster(folder: Path, workers: int) -> str:
    """Write the profile of a local cluster with ``workers`` workers; return its path."""
    path = folder / f"workers-{workers}.yaml"
    path.write_text(f"name: test\ndask: {{kind: local, workers: {workers}}}\n", encoding="utf-8")
    return str(path)


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file whose bytes must not depend on how the work was done."""
    files = [*folder.glob("*.tar"), folder / "manifest.json", folder / ".prepare" / "plan.json"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def task_states(name: str) -> dict[str, str]:
    """Return the state name of each task run, by name, from the newest flow run whose name contains ``name``."""
    with get_client(sync_client=True) as client:
        runs = sorted(client.read_flow_runs(limit=200), key=lambda run: run.expected_start_time)
        newest = [run for run in runs if name in run.name][-1]
        only = FlowRunFilter(id=FlowRunFilterId(any_=[newest.id]))
        return {run.name: run.state_name for run in client.read_task_runs(flow_run_filter=only)}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return copy_shards("golden+defects", tmp_path / "raw")


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_golden_bytes_for_any_number_of_workers(raw, tmp_path, workers):
    out = tmp_path / "out"
    result = convert_dataset(raw, out, convert=settings_of(CASE), cluster=cluster(tmp_path, workers))
    manifest = json.loads((out / "manifest.json").read_bytes())
    assert manifest["output_shards"] == CASE["output_shards"]
    assert {tar["filename"]: tar["sha256"] for tar in CASE["output_shards"]}.items() <= hashes(out).items()
    assert result.counts.model_dump() == CASE["counts"]
    assert (result.index.train, result.index.val) == (CASE["counts"]["train"], CASE["counts"]["val"])


def test_rerun_is_cached_and_mends_what_was_lost(raw, tmp_path):
    out, settings = tmp_path / "out", settings_of(CASE)
    convert_dataset(raw, out, convert=settings, cluster=cluster(tmp_path, 2))
    before = hashes(out)
    (out / "train-shard-000001.tar").unlink()
    with (out / "val-shard-000000.tar").open("r+b") as file:
        file.seek(3000)
        file.write(b"\xff")
    (out / ".prepare" / "scan" / "00000002.parquet").write_bytes(b"PAR1")

    convert_dataset(raw, out, convert=settings, cluster=cluster(tmp_path, 2))

    assert hashes(out) == before
    states = task_states(str(out))
    again = {name for name, state in states.items() if state != "Cached"}
    assert again == {"scan-00000002", "write-train-000001", "write-val-000000", "index-energon"}


def test_damaged_tar_fails_the_flow_by_name_and_a_cut_off_before_it_does_not_matter(raw, tmp_path):
    last = raw / "00000003.tar"
    last.write_bytes(last.read_bytes()[:5000])
    state = convert_dataset(raw, tmp_path / "all", cluster=cluster(tmp_path, 2), return_state=True)
    assert state.is_failed()
    assert "00000003.tar" in state.message
    assert not (tmp_path / "all" / "manifest.json").exists()
    assert task_states(str(tmp_path / "all"))["scan-00000003"] == "Failed"

    few = convert_dataset(raw, tmp_path / "few", convert=ConvertSettings(maximum_samples=90), cluster="local")
    assert few.raw_shards_opened == 2


def test_too_few_samples_keeps_the_tars_and_indexes_nothing(raw, tmp_path):
    out = tmp_path / "out"
    state = convert_dataset(raw, out, convert=ConvertSettings(minimum_train_samples=1000), return_state=True)
    assert state.is_failed() and "minimum_train_samples" in state.message
    assert json.loads((out / "manifest.json").read_bytes())["accepted"] is False
    assert (out / "train-shard-000000.tar").exists() and not (out / ".nv-meta").exists()
    stopped = next(stage for stage in read_status(tmp_path, "out").stages if stage.stage == "index")
    assert stopped.state == "failed" and stopped.why[0] == state.message

    tars = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")}
    convert_dataset(raw, out, convert=ConvertSettings(minimum_train_samples=100))
    assert json.loads((out / "manifest.json").read_bytes())["accepted"] is True
    assert tars == {path.name: path.stat().st_mtime_ns for path in out.glob("*.tar")}


def test_folder_of_another_plan_is_refused_and_left_alone(raw, tmp_path):
    out = tmp_path / "out"
    convert_dataset(raw, out, convert=settings_of(CASE))
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}
    state = convert_dataset(raw, out, convert=ConvertSettings(prompt="Another one."), return_state=True)
    assert state.is_failed() and "prompt" in state.message and "dataset_name" in state.message
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file()}


def test_audit_fails_with_every_finding_and_conversion_uses_its_index(tmp_path):
    shards = copy_shards("golden+defects", tmp_path / "raw" / "shards")
    (shards / "00000001_stats.json").unlink()
    state = audit_download(shards, gate=GateSettings(expected_shards=4), return_state=True)
    assert state.is_failed()
    for part in ("00000001_stats.json", "000000030015", "000000030017", "expected_shards is 4"):
        assert part in state.message
    told = next(stage for stage in read_status(tmp_path, "energon").stages if stage.stage == "audit")
    assert told.state == "failed" and told.why[0] == state.message
    assert task_states(str(shards))["audit-00000001"] == "Failed"
    assert task_states(str(shards))["audit-00000000"] == "Completed"

    convert_dataset(shards, tmp_path / "energon", convert=settings_of(CASE))
    assert not list((tmp_path / "energon" / ".prepare" / "index").glob("*.parquet"))


def test_audit_without_a_gate_says_so_and_a_slice_gives_one(tmp_path):
    shards = copy_shards("golden", tmp_path / "raw" / "shards")
    state = audit_download(shards, return_state=True)
    assert state.is_completed() and "no gate was given" in state.message
    assert (
        "no gate was given"
        not in audit_download(shards, gate=GateSettings(minimum_successes=1), return_state=True).message
    )
    state = audit_download(shards, dataset_slice="datacomp-1b-tutorial", return_state=True)
    assert state.is_failed() and "expected_shards is 216" in state.message


def test_changed_raw_shard_is_audited_again(tmp_path):
    shards = copy_shards("golden", tmp_path / "raw" / "shards")
    audit_download(shards)
    shutil.copy(shards / "00000001.tar", shards / "00000002.tar")
    state = audit_download(shards, return_state=True)
    assert state.is_failed() and "00000002" in state.message
    states = task_states(str(shards))
    assert (states["audit-00000000"], states["audit-00000002"]) == ("Cached", "Failed")


def test_progress_and_tables_are_shown_in_the_ui(raw, tmp_path):
    with pytest.raises(GateError):
        audit_download(raw, tmp_path / "audit", cluster=cluster(tmp_path, 2))
    converted = (raw, tmp_path / "shown", tmp_path / "audit", settings_of(CASE), cluster(tmp_path, 2))
    state = convert_dataset(*converted, return_state=True)
    counts = CASE["counts"]
    assert f"{counts['train']} train, {counts['val']} val, {counts['skipped']} rejected" in state.message
    with get_client(sync_client=True) as client:
        newest = {a.key: a for a in reversed(client.read_artifacts(sort=ArtifactSort.CREATED_DESC))}
    for key in ("audit-progress", "scan-progress", "write-progress", "index-progress"):
        assert newest[key].data == 100.0
        assert "a minute" in newest[key].description
    rejects = json.loads(newest["reject-reasons"].data)
    reasons = Counter(reason for row in rejects for reason in row["samples"] * [row["reason"]])
    assert reasons == CASE["counts"]["skip_reasons"]
    assert all(re.fullmatch(r"\d+ in 0000000\d\.tar", row["for example"]) for row in rejects)
    assert len(json.loads(newest["output-tars"].data)) == len(CASE["output_shards"])
    assert "HTTP Error 404: Not Found" in newest["failure-reasons"].data
    assert len(json.loads(newest["raw-shards"].data)) == 4


def test_shards_without_a_usable_sample_fail_with_the_reasons(tmp_path):
    write_shard(tmp_path / "raw", 0, [sample(f"0{n}", n, " ") for n in range(3)])
    state = convert_dataset(tmp_path / "raw", tmp_path / "out", cluster=cluster(tmp_path, 1), return_state=True)
    assert state.is_failed()
    assert "of 3 samples none can be used ({'empty_caption': 3})" in state.message
    assert str(tmp_path / "out" / ".prepare" / "rejects.parquet") in state.message


def test_tars_whose_names_start_with_a_dot_are_named_in_the_log(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(convert, "get_run_logger", lambda: logging.getLogger("convert"))
    write_shard(tmp_path / "raw", 0, [sample("a", 1)]).with_name(".x.tar").touch()
    convert._warn_of_hidden_tars(tmp_path / "raw")
    assert caplog.messages == ["ignored, since their names start with a dot: .x.tar"]
