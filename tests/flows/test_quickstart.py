"""The quickstart as a new user runs it, killed and rerun, and the commands of its documents."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import documents
from tests.conftest import kill_group
from tests.tasks.convert.serial import convert


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("quickstart") / "data"


def start(root: Path, server: str) -> subprocess.Popen[bytes]:
    log = (root.parent / "program.log").open("ab")
    return subprocess.Popen(
        [sys.executable, "-m", "flows.quickstart", "--root", str(root)],
        env=os.environ | {"PREFECT_API_URL": server},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def kill_when(root: Path, server: str, reached: Callable[[], bool]) -> None:
    """Start the quickstart, and SIGKILL it as soon as ``reached`` holds."""
    process = start(root, server)
    deadline = time.monotonic() + 240
    while not reached():
        assert process.poll() is None, (root.parent / "program.log").read_text(encoding="utf-8")[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    kill_group(process)


def hashes(paths: list[Path]) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def prepared(root, prefect_server) -> tuple[Path, subprocess.CompletedProcess[str], dict[str, dict[str, str]]]:
    """A quickstart that was killed three times: its root, the run that finished it, and the files after each kill."""
    shards, prepare = root / "raw" / "shards", root / "energon" / ".prepare"
    kept = {}
    kill_when(root, prefect_server, lambda: len(list(shards.glob("*_stats.json"))) >= 4)
    done = [path.name.removesuffix("_stats.json") for path in shards.glob("*_stats.json")]
    kept["download"] = hashes([shards / f"{name}.tar" for name in sorted(done)[:3]])
    kill_when(root, prefect_server, lambda: len(list(prepare.glob("scan/*.json"))) >= 3)
    kept["scan"] = hashes(sorted(shards.glob("*.tar")))
    kill_when(root, prefect_server, lambda: len(list(prepare.glob("write/*.json"))) >= 2)
    kept["write"] = hashes(
        [root / "energon" / path.name.removesuffix(".json") for path in prepare.glob("write/*.json")]
    )
    finished = subprocess.run(
        [sys.executable, "-m", "flows.quickstart", "--root", str(root)],
        env=os.environ | {"PREFECT_API_URL": prefect_server},
        capture_output=True,
        text=True,
        timeout=400,
    )
    return root, finished, kept


def test_killed_quickstart_finishes_without_redoing_finished_shards(prepared):
    root, finished, kept = prepared
    assert finished.returncode == 0, finished.stderr[-3000:]
    shards = root / "raw" / "shards"
    assert kept["download"].items() <= hashes(sorted(shards.glob("*.tar"))).items()
    assert kept["scan"] == hashes(sorted(shards.glob("*.tar")))
    assert kept["write"].items() <= hashes(sorted((root / "energon").glob("*.tar"))).items()


def test_killed_after_the_download_it_gives_the_bytes_of_an_undisturbed_run(prepared, tmp_path):
    root, _, _ = prepared
    dataset = root / "energon"
    manifest = json.loads((dataset / "manifest.json").read_bytes())
    from tasks.contracts.settings import ConvertSettings
    from tasks.metadata.slices import load_slice

    settings = load_slice(str(root / "quickstart-slice.yaml")).convert_settings(ConvertSettings())
    assert convert(root / "raw" / "shards", tmp_path / "again", settings) == manifest
    assert hashes(sorted((tmp_path / "again").glob("*.tar"))) == hashes(sorted(dataset.glob("*.tar")))


def test_quickstart_accounts_for_every_url_and_says_so_in_a_table(prepared):
    root, finished, _ = prepared
    result = json.loads(finished.stdout.splitlines()[-1])
    audit, counts = result["audit"], result["dataset"]["counts"]
    assert audit["attempts"] == 2000
    assert audit["successes"] + sum(audit["failure_reasons"].values()) == 2000
    assert counts["input_samples"] == audit["successes"] == counts["train"] + counts["val"] + counts["skipped"]
    assert {"duplicate_uid", "empty_caption", "invalid_sample"} <= counts["skip_reasons"].keys()
    assert {"HTTP Error 404: Not Found", "timed out", "Connection refused"} <= audit["failure_reasons"].keys()
    loaded = {one["split"]: one["samples"] for one in result["check"]["loaded"]}
    assert loaded == {"train": counts["train"], "val": counts["val"]}
    for what in ("Attempted URLs", "Successful downloads", "Train samples", "Output bytes", "Prefect UI: "):
        assert what in finished.stdout
    assert {f"Dataset: {root / 'energon'}", f"Report: {root / 'reports/energon/index.html'}"} <= set(
        finished.stdout.splitlines()
    )


def test_second_quickstart_finds_everything_done(prepared, prefect_server):
    root, _, _ = prepared
    files = [path for path in root.rglob("*") if path.suffix in {".tar", ".sqlite", ".parquet"}]
    before = {path: path.stat().st_mtime_ns for path in files if "plan" not in path.name and "rejects" not in path.name}
    process = start(root, prefect_server)
    assert process.wait(300) == 0
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_commands_of_the_documents_run_one_after_the_other(prepared, prefect_server, tmp_path):
    """Replace `quickstart-data` in the commands by the quickstart's root."""
    root, _, _ = prepared
    environment = os.environ | {"PREFECT_API_URL": prefect_server}
    for command in (c for c in documents.commands() if "quickstart-data" in c):
        here = command.replace("quickstart-data", str(root)).replace(".venv/bin", str(Path(sys.executable).parent))
        done = subprocess.run(shlex.split(here), cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, command + done.stderr[-3000:]
