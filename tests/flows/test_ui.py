"""`make ui`: a server and a worker that run flows which other programs start."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
import yaml

from cli.server import free_port
from tests import documents
from tests.conftest import ROOT, credentials
from tests.golden import copy_shards


@pytest.fixture
def ui(state_home, tmp_path, monkeypatch):
    """`make ui`, started outside the project's folder."""
    log = tmp_path / "ui.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cli", "ui", "--port", str(free_port())],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith("PREFECT_API_")}
            # Nothing listens there: a flow that downloads must fail instead of reaching the internet.
            | {"PREFECT_WORKER_QUERY_SECONDS": "1", "HF_ENDPOINT": "http://127.0.0.1:9"},
            stdout=output,
            stderr=output,
            # As in the background of a script, where SIGINT is ignored: the program and its children must still stop.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
    try:
        address = address_of(process, log)
        file = re.search(r"For another shell: \. (\S+)", log.read_text(encoding="utf-8"))
        assert file
        for name, value in re.findall(r"export (\w+)=(\S+)", Path(file[1]).read_text(encoding="utf-8")):
            monkeypatch.setenv(name, value)
        yield address + "/api"
    finally:
        process.send_signal(signal.SIGTERM)
        ended = process.wait(240)
    assert ended == 0


def address_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait until the program prints its address, and return it."""
    deadline = time.monotonic() + 600
    while not (found := re.search(r"Prefect UI: (http://[^/\s]+)/open#", log.read_text(encoding="utf-8"))):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.2)
    return found[1]


def module_and_arguments(command: str) -> list[str]:
    """Convert a command from the documents to arguments of ``python -m``, without waiting for the run to end."""
    program, *arguments = shlex.split(command.removesuffix(" --watch"))
    return [{"prefect": "prefect", "datacomp-energon": "cli"}[Path(program).name], *arguments]


def prefect(api: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_module(api, "prefect", *arguments)


def run_module(api: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=os.environ | {"PREFECT_API_URL": api, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=180,
        cwd=cwd,
    )


def test_deployed_flow_runs_from_another_folder_and_bad_parameters_are_refused(ui, tmp_path):
    listed = json.loads(prefect(ui, "deployment", "ls", "--output", "json").stdout)
    declared = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    assert len(listed) == sum(deployment["name"] == "local" for deployment in declared)
    told = (tmp_path / "ui.log").read_text(encoding="utf-8")
    assert told.count("Deployment ") == len(listed) and "Created work pool 'local'" in told
    # The link comes last: whoever opens it finds a worker that accepts runs.
    steps = [told.index(step) for step in ("The server is up.", "Deployment ", "is ready.", "Prefect UI:")]
    assert steps == sorted(steps)
    proposed = httpx.get(f"{ui}/deployments/name/quickstart/local", timeout=60, auth=credentials()).json()["parameters"]
    assert proposed == {"root": str(tmp_path / "quickstart-data")}
    shards = copy_shards("golden", tmp_path / "raw" / "shards")
    ran = prefect(ui, "deployment", "run", "audit-download/local", "-p", f"shards_dir={shards}", "--watch")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "raw" / "audit" / "totals.json").exists()
    for command in documents.commands():
        if command.startswith((".venv/bin/prefect ", ".venv/bin/datacomp-energon deploy ")):
            done = run_module(ui, *module_and_arguments(command), cwd=ROOT)
            assert done.returncode == 0, command + done.stdout + done.stderr
    refused = prefect(
        ui, "deployment", "run", "audit-download/local", "-p", f"shards_dir={shards}", "-p", "gate={'x': 1}"
    )
    assert refused.returncode != 0
