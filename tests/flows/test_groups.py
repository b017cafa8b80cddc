"""Many shards, few task runs: audit-download and convert-dataset with several shards for each task run."""

import json

import pytest

from flows.audit import audit_download
from flows.convert import convert_dataset
from tests.flows.test_convert import CASE, hashes, task_states
from tests.golden import copy_shards, settings_of

pytestmark = pytest.mark.usefixtures("prefect_server")

TARS = [tar["filename"].removesuffix(".tar").replace("-shard-", "-") for tar in CASE["output_shards"]]

COPIES = {"copies-0000", "copies-0001"}


@pytest.fixture
def few(tmp_path):
    """A cluster profile with two task runs for each stage, which searches copies in tasks, not in the flow's memory."""
    path = tmp_path / "few.yaml"
    path.write_text("name: few\ntask_runs: 2\nplan_in_memory: 1\ndask: {kind: local, workers: 2}\n", encoding="utf-8")
    return str(path)


def test_groups_give_the_same_bytes_and_a_rerun_leaves_out_what_is_finished(tmp_path, few):
    shards, out = copy_shards("golden+defects", tmp_path / "raw"), tmp_path / "energon"
    convert_dataset(shards, out, convert=settings_of(CASE), cluster=few)
    assert json.loads((out / "manifest.json").read_bytes())["output_shards"] == CASE["output_shards"]
    states = task_states(str(out))
    middle = (len(TARS) + 1) // 2
    assert states.keys() == {
        "scan-00000000..00000001",
        "scan-00000002..00000003",
        f"write-{TARS[0]}..{TARS[middle - 1]}",
        f"write-{TARS[middle]}..{TARS[-1]}",
        *COPIES,
        "index-energon",
    }

    before = hashes(out)
    (out / CASE["output_shards"][-1]["filename"]).unlink()
    (out / ".prepare" / "scan" / "00000002.parquet").unlink()
    convert_dataset(shards, out, convert=settings_of(CASE), cluster=few)
    assert hashes(out) == before
    assert task_states(str(out)).keys() == {"scan-00000002", f"write-{TARS[-1]}", "index-energon"}


def test_audit_in_groups_tells_every_finding_again_when_all_shards_are_finished(tmp_path, few):
    shards = copy_shards("golden+defects", tmp_path / "raw" / "shards")
    state = audit_download(shards, cluster=few, return_state=True)
    assert "000000030015" in state.message and "000000030017" in state.message
    assert task_states(str(shards)) == {"audit-00000000..00000001": "Completed", "audit-00000002..00000003": "Failed"}
    assert audit_download(shards, cluster=few, return_state=True).message == state.message
    assert task_states(str(shards)) == {}
