"""Flows that the Slurm tests run as jobs."""

import os
import signal
import time
from pathlib import Path

from prefect import flow

from tasks.contracts.errors import GateError
from tasks.running.outcomes import fails_in_words
from tasks.running.stages import Stages, cancel_children


@flow
def nap(folder: str, seconds: float = 0) -> None:
    """Note that it began, sleep, at most until there is a file ``stop``, note that it ended; on a second attempt it
    finds the first's note and ends at once."""
    began = Path(folder) / "began"
    attempts = len(began.read_text().splitlines()) if began.exists() else 0
    with began.open("a") as file:
        file.write(f"{os.environ['SLURM_JOB_ID']}\n")
    if not attempts:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (Path(folder) / "stop").exists():
            time.sleep(0.1)
    (Path(folder) / "ended").write_text(os.environ["SLURMD_NODENAME"])


@flow
def show_job(folder: str) -> None:
    """Write down the environment that a job sees."""
    lines = [f"{name}={value}" for name, value in sorted(os.environ.items())]
    (Path(folder) / "environment").write_text("\n".join(lines))


@flow
def fall(folder: str, code: int | None = None) -> None:
    """End at once with ``code``, or be killed by a segmentation fault."""
    (Path(folder) / "began").touch()
    if code is not None:
        os._exit(code)
    os.kill(os.getpid(), signal.SIGSEGV)


@flow
@fails_in_words
def refuse(folder: str) -> None:
    """End as a gate does that is not passed."""
    raise GateError(f"{folder}: 3 samples are there, 4 are wanted")


@flow(on_cancellation=[cancel_children])
@fails_in_words
def parent(folder: str, stage: str, seconds: float = 0) -> None:
    """Run ``nap`` or ``refuse`` as a stage, in a job of its own."""
    stages = Stages("deployments", Path(folder) / "results")
    if stage == "nap":
        stages.run(nap, folder, seconds)
    else:
        stages.run(refuse, folder)
    (Path(folder) / "went-on").touch()
