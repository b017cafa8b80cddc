"""Files of killed Dask flows in the log directory, and their cleanup."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from deployments.slurm import leftovers
from deployments.workers.certificates import RunCertificates
from tasks.slurm.job_folder import ENVIRONMENT_FILE
from tests.conftest import ROOT

FLOW = """
import sys, time, uuid
from pathlib import Path
from deployments.workers.certificates import RunCertificates
from deployments.workers.slurm import WorkerJobContext
from tasks.contracts.job_variables import JobVariables

folder, run = Path(sys.argv[1]), uuid.UUID(sys.argv[2])
RunCertificates(folder / str(run))
WorkerJobContext(run, JobVariables(), folder).prepare()
print("ready", flush=True)
time.sleep(600)
"""


def keys(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*_key.pem"))


def start_flow(folder: Path, run: uuid.UUID) -> subprocess.Popen[str]:
    """Start a process that has the certificates and the job environment of a run."""
    flow = subprocess.Popen(
        [sys.executable, "-c", FLOW, str(folder), str(run)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert flow.stdout and flow.stdout.readline() == "ready\n"
    return flow


def test_secrets_of_a_killed_flow_are_deleted_by_the_next_and_a_live_ones_are_kept(tmp_path):
    killed, live = uuid.uuid4(), uuid.uuid4()
    flows = [start_flow(tmp_path, killed), start_flow(tmp_path, live)]
    try:
        flows[0].send_signal(signal.SIGKILL)
        flows[0].wait()
        assert len(keys(tmp_path / str(killed))) == 3
        own = RunCertificates(tmp_path / "own")
        assert not keys(tmp_path / str(killed)) and not list((tmp_path / str(killed)).rglob(ENVIRONMENT_FILE))
        assert len(keys(tmp_path / str(live))) == 3 and list((tmp_path / str(live)).rglob(ENVIRONMENT_FILE))
        own.forget()
        assert len(keys(tmp_path)) == 3
    finally:
        for flow in flows:
            flow.kill()
            flow.wait()


def test_an_ended_flow_leaves_no_secret_even_if_its_cluster_never_began(tmp_path):
    code = FLOW.replace("time.sleep(600)", "sys.exit('the cluster cannot start')")
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(uuid.uuid4())],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == "the cluster cannot start\n"
    assert not keys(tmp_path) and not list(tmp_path.rglob(ENVIRONMENT_FILE))


@pytest.mark.parametrize(("days", "kept"), [(0.5, True), (2, False)])
@pytest.mark.parametrize("noted", [True, False])
def test_certificates_from_another_host_are_kept_for_a_day_after_their_last_beat(tmp_path, noted, days, kept):
    certificates = tmp_path / "run" / "tls-x"
    certificates.mkdir(parents=True)
    (certificates / "tls_client_key.pem").write_text("secret")
    note = certificates / ".holder.json"
    if noted:
        holder = {"what": "Dask cluster", "user": "u", "host": "elsewhere", "pid": 1, "since": 0.0}
        note.write_text(json.dumps(holder))
    (certificates / ".lock").touch()
    touched = time.time() - days * 86_400
    os.utime(note if noted else certificates, (touched, touched))
    leftovers.sweep_dask(tmp_path)
    assert bool(keys(tmp_path)) is kept


def test_a_link_in_place_of_certificates_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "dask" / "run").mkdir(parents=True)
    (tmp_path / "dask" / "run" / "tls-x").symlink_to(precious)
    os.utime(precious, (0, 0))
    leftovers.sweep_dask(tmp_path / "dask")
    assert (precious / "file").exists()
