"""Two runs at once: a second writer of a folder fails immediately, a run beside it is not affected."""

import os
from pathlib import Path

import pytest
from prefect.client.schemas.objects import State

from flows.audit import audit_download
from flows.convert import convert_dataset
from flows.metadata import download_metadata
from flows.report import report_dataset
from tasks.io.folder_lock import NOTE, one_writer
from tests.golden import EXPECTED, copy_shards, settings_of

CASE = EXPECTED["golden"]["small_tars"]

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def root(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with raw shards and a dataset that was converted while other runs held locks in the root."""
    root = tmp_path_factory.mktemp("root")
    shards = copy_shards("golden", root / "raw" / "shards")
    audit, other = root / "raw" / "audit", root / "other" / ".prepare"
    with one_writer(audit, "audit"), one_writer(other, "conversion"), one_writer(root / "raw" / "download", "download"):
        convert_dataset(shards, root / "energon", convert=settings_of(CASE))
    return root


def run(what: str, root: Path) -> State:
    """Run the flow for ``what``; return its final state."""
    shards = root / "raw" / "shards"
    flows = {
        "fetch of metadata": lambda: download_metadata(root, return_state=True),
        "audit": lambda: audit_download(shards, return_state=True),
        "conversion": lambda: convert_dataset(shards, root / "energon", convert=settings_of(CASE), return_state=True),
        "report": lambda: report_dataset(root, return_state=True),
    }
    return flows[what]()


@pytest.mark.parametrize(
    ("what", "folder"),
    [
        ("fetch of metadata", "raw/metadata"),
        ("audit", "raw/audit"),
        ("conversion", "energon/.prepare"),
        ("report", "reports/energon"),
    ],
)
def test_second_run_stops_at_once_and_names_the_first(root: Path, what: str, folder: str) -> None:
    leftover = root / folder / ".train-shard-000000.tar.0.partial"
    with one_writer(root / folder, what, run="olive-fox"):
        leftover.touch()
        state = run(what, root)
        assert leftover.exists()
    leftover.unlink()
    assert state.is_failed() and state.message
    assert f"Another {what} is at work in {root}" in state.message
    assert f"process {os.getpid()} of " in state.message and "flow run 'olive-fox', since 2" in state.message


def test_finished_audit_and_metadata_keep_nobody_out(root: Path) -> None:
    """Run the stages that two datasets of one root share."""
    assert run("audit", root).is_completed()
    with one_writer(root / "raw" / "audit", "audit"):
        assert run("audit", root).is_completed()


def test_a_refused_run_that_verifies_everything_changes_nothing(root: Path) -> None:
    """Keep the active run's fingerprint notes: without them, it would treat its own output as changed."""
    shards, audit, dataset = root / "raw" / "shards", root / "raw" / "audit", root / "energon"
    notes = [path for folder in (audit, dataset) for path in folder.rglob("fingerprints/*.json")]
    before = {path: path.read_bytes() for path in notes}
    assert before
    with one_writer(audit, "audit"), one_writer(dataset / ".prepare", "conversion"):
        audited = audit_download(shards, verify="full", return_state=True)
        converted = convert_dataset(shards, dataset, convert=settings_of(CASE), verify="full", return_state=True)
    assert audited.is_failed() and "Another audit is at work" in str(audited.message)
    assert converted.is_failed() and "Another conversion is at work" in str(converted.message)
    assert {path: path.read_bytes() for path in notes} == before


def test_nothing_is_left_of_a_lock(root: Path) -> None:
    assert not list(root.rglob(NOTE))
