"""Status of data roots in every state: not started, killed, damaged, failed, finished, not ours."""

import io
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli.status import print_status
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.errors import BusyError, SettingsError
from tasks.convert.conversion import Conversion
from tasks.energon.index import index_dataset
from tasks.io.failure_note import failure_noted
from tasks.io.files import write_json
from tasks.io.folder_lock import NOTE
from tasks.status.models import Stage, Status
from tasks.status.overview import read_status
from tests.conftest import ROOT
from tests.golden import EXPECTED, copy_shards, settings_of
from tests.tasks.convert.serial import convert, scan_and_plan, write

SETTINGS = settings_of(EXPECTED["golden"]["small_tars"])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with audited shards that were downloaded elsewhere."""
    root = tmp_path_factory.mktemp("audited") / "root"
    shards = copy_shards("golden", root / "raw" / "shards")
    for tar in sorted(shards.glob("*.tar")):
        audit_shard(AuditJob(shards_dir=shards, audit_dir=root / "raw" / "audit", shard=tar.stem))
    write_json(root / "raw" / "audit" / "totals.json", {"attempts": 192, "successes": 141})
    write_json(root / "raw" / "audit" / "findings.json", [])
    return root


@pytest.fixture(scope="module")
def indexed(audited: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with an indexed dataset."""
    root = tmp_path_factory.mktemp("indexed") / "root"
    shutil.copytree(audited, root)
    convert(root / "raw" / "shards", root / "energon", SETTINGS, root / "raw" / "audit")
    index_dataset(root / "energon")
    return root


@pytest.fixture
def root(indexed: Path, tmp_path: Path) -> Path:
    """A copy for tests that damage it."""
    shutil.copytree(indexed, tmp_path / "root")
    return tmp_path / "root"


def stages(status: Status) -> dict[str, Stage]:
    return {stage.stage: stage for stage in status.stages}


def states(status: Status) -> dict[str, str]:
    return {stage.stage: stage.state for stage in status.stages}


def test_empty_root_has_everything_before_it(tmp_path: Path) -> None:
    status = read_status(tmp_path, "energon")
    assert set(states(status).values()) == {"not begun"}
    assert list(states(status)) == [
        *("metadata", "download", "audit", "scan", "plan", "write", "index", "check", "report")
    ]
    assert not status.failed and not status.finished


def test_folder_that_is_not_a_data_root_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(SettingsError, match="holds neither raw/ nor energon/: it is not a data root"):
        read_status(tmp_path, "energon")
    with pytest.raises(SettingsError, match="is not a folder"):
        read_status(tmp_path / "gone", "energon")


def test_dataset_folder_with_unknown_files_fails(tmp_path: Path) -> None:
    (tmp_path / "energon").mkdir()
    (tmp_path / "energon" / "thesis.tex").touch()
    scan = stages(read_status(tmp_path, "energon"))["scan"]
    assert scan.state == "failed" and "holds files that are not of a conversion" in scan.why[0]


def test_dataset_without_its_plan_can_resume(root: Path) -> None:
    shutil.rmtree(root / "energon" / ".prepare")
    status = read_status(root, "energon")
    assert not status.failed and states(status)["plan"] == "not begun"


def test_indexed_dataset_lacks_its_check_and_its_report(indexed: Path) -> None:
    status = read_status(indexed, "energon")
    done = {name for name, state in states(status).items() if state == "done"}
    assert done == {"download", "audit", "scan", "plan", "write", "index"}
    by_stage = stages(status)
    assert by_stage["check"].rerun == "read train and val back through Energon"
    assert by_stage["audit"].summary == "192 URLs, 141 samples"
    assert {by_stage[name].rerun for name in done - {"download"}} == {"nothing to do"}


def test_another_dataset_of_the_root_is_at_its_beginning(indexed: Path) -> None:
    by_stage = stages(read_status(indexed, "other"))
    assert by_stage["audit"].state == "done"
    assert (by_stage["scan"].state, by_stage["scan"].of) == ("not begun", 3)


def test_killed_run_is_told_by_what_it_left(audited: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(audited, root)
    conversion = Conversion(root / "raw" / "shards", root / "energon", None, SETTINGS)
    plan = scan_and_plan(conversion)
    write(conversion, plan)
    (root / "energon" / ".prepare" / "write" / "train-shard-000001.tar.json").unlink()
    holder = {"what": "conversion", "user": "kim", "host": "node17", "pid": 1, "run": "olive-fox", "since": 1e9}
    write_json(root / "energon" / ".prepare" / NOTE, holder)
    status = read_status(root, "energon")
    assert len(status.at_work) == 1 and "kim on node17, flow run 'olive-fox'" in status.at_work[0]
    by_stage = stages(status)
    assert (by_stage["write"].state, by_stage["write"].missing) == ("unfinished", ("train-shard-000001.tar",))
    assert by_stage["write"].rerun == "write 1 tars"
    assert by_stage["index"].state == "not begun"

    dead = subprocess.Popen(["true"])
    dead.wait()
    write_json(root / "energon" / ".prepare" / NOTE, holder | {"host": socket.gethostname(), "pid": dead.pid})
    status = read_status(root, "energon")
    assert status.at_work == () and f"process {dead.pid} of kim" in status.died[0]


def test_harm_is_seen_where_sizes_and_times_tell_of_it(root: Path) -> None:
    (root / "raw" / "shards" / "00000001.tar").write_bytes(b"cut")
    (root / "raw" / "audit" / "00000002.json").unlink()
    (root / "energon" / "train-shard-000000.tar").write_bytes(b"cut")
    (root / "energon" / "train-shard-000001.tar.idx").unlink()
    by_stage = stages(read_status(root, "energon"))
    assert by_stage["audit"].missing == ("00000001", "00000002")
    assert by_stage["scan"].missing == ("00000001.tar",)
    assert by_stage["plan"].state == "failed" and "00000001.tar changed since" in by_stage["plan"].why[0]
    assert by_stage["write"].missing == ("train-shard-000000.tar",)
    assert by_stage["index"].missing == ("train-shard-000001.tar.idx",)


def test_findings_of_an_audit_that_did_not_end_are_told(root: Path) -> None:
    shards = root / "raw" / "shards"
    (shards / "00000001.tar").write_bytes((shards / "00000001.tar").read_bytes()[:9000])
    audit_shard(AuditJob(shards_dir=shards, audit_dir=root / "raw" / "audit", shard="00000001"))
    audit = stages(read_status(root, "energon"))["audit"]
    assert audit.state == "failed" and any("00000001" in why and "cannot be read as a tar" in why for why in audit.why)


def test_gate_failure_is_told_with_its_numbers(audited: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(audited, root)
    settings = SETTINGS.model_copy(update={"minimum_train_samples": 100_000})
    convert(root / "raw" / "shards", root / "energon", settings)
    status = read_status(root, "energon")
    index = stages(status)["index"]
    assert status.failed and index.state == "failed"
    assert "fewer than minimum_train_samples (100,000)" in index.why[0]


def test_last_failure_is_told_until_a_run_succeeds(root: Path) -> None:
    audit = root / "raw" / "audit"
    with pytest.raises(OSError, match="no space"), failure_noted(audit, "audit"):
        raise OSError(28, "no space left")
    assert "no space left" in stages(read_status(root, "energon"))["audit"].why[0]
    with failure_noted(audit, "audit"):
        pass
    assert stages(read_status(root, "energon"))["audit"].state == "done"


def test_run_that_is_kept_out_leaves_no_failure(root: Path) -> None:
    with pytest.raises(BusyError), failure_noted(root / "raw" / "audit", "audit"):
        raise BusyError("another one is at work")
    assert stages(read_status(root, "energon"))["audit"].state == "done"


RECORDS = ["raw/audit/totals.json", "raw/audit/findings.json", "energon/manifest.json", "energon/.prepare/plan.json"]


@pytest.mark.parametrize("rubbish", [b"", b"[]", b'{"opened": 5}', b"\xff"])
@pytest.mark.parametrize("record", [*RECORDS, "energon/.prepare/index-receipt.json", "raw/download/identity.json"])
def test_damaged_record_counts_as_not_there(root: Path, record: str, rubbish: bytes) -> None:
    (root / record).parent.mkdir(exist_ok=True)
    (root / record).write_bytes(rubbish)
    assert len(read_status(root, "energon").stages) == 9


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cli", "status", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


def test_program_prints_a_table_and_one_json_object_and_exits_as_the_others(root: Path, tmp_path: Path) -> None:
    done = program("--root", str(root))
    assert done.returncode == 0, done.stderr
    assert Status.model_validate_json(done.stdout.splitlines()[-1]).dataset_name == "energon"
    assert "read train and val" in done.stdout and "[" not in done.stdout.splitlines()[0]
    assert program("--root", str(root), "--json").stdout == done.stdout.splitlines()[-1] + "\n"
    (root / "raw" / "shards" / "00000001.tar").write_bytes(b"cut")
    failed = program("--root", str(root))
    assert failed.returncode == 1 and "plan: 00000001.tar changed since" in failed.stdout
    assert json.loads(failed.stdout.splitlines()[-1])["failed"] is True
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "x").touch()
    refused = program("--root", str(tmp_path / "foreign"))
    assert refused.returncode == 2 and refused.stderr.startswith("error: root: ") and not refused.stdout


def test_a_terminal_shows_names_as_they_are_and_obeys_nothing_in_them(tmp_path: Path) -> None:
    odd = tmp_path / "data [red] \x1b[2J"
    odd.mkdir()
    status = read_status(odd, "energon").model_copy(update={"died": ("audit: [b]\x07",)})
    console = Console(file=io.StringIO(), width=200)
    print_status(status, console)
    shown = console.file.getvalue()
    assert "data [red] \\x1b[2J" in shown and "Died: audit: [b]\\x07" in shown
    assert "\x1b" not in shown and "\x07" not in shown


def test_program_starts_without_prefect_dask_or_arrow() -> None:
    code = "import sys, cli.status; print({'prefect', 'dask', 'pyarrow', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout.strip() == "set()", done.stderr


def test_looking_changes_nothing(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    read_status(root, "energon")
    assert before == {path: path.stat().st_mtime_ns for path in root.rglob("*")}
