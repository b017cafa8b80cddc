"""The tests' own Slurm leaves no processes or files behind, however its process ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.slurm.conftest import require_slurm

pytestmark = pytest.mark.slurm

SCRIPT = """
import sys
from tests.slurm.cluster import SlurmCluster
with SlurmCluster() as cluster:
    cluster.command("sbatch", "--output=/dev/null", "--wrap=sleep 300")
    print(cluster.folder, flush=True)
    sys.stdin.read()
"""


def test_a_killed_test_process_leaves_no_daemon() -> None:
    require_slurm()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    pids = [int(file.read_text()) for file in (folder / "run").glob("*.pid")]
    assert len(pids) == 6
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 60
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()
    assert not [
        pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
