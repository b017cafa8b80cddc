"""Behaviour that a test chooses for the stand-in: ``behaviour.json``, {moment: "fail" | "wait"} and "resolved"."""

import json
import os
import sys
import time
from pathlib import Path

_FILE = Path(__file__).with_name("behaviour.json")


def act(moment: str) -> None:
    """Fail or wait at this moment if the test asks for it; a waiting job continues when the test changes its mind."""
    print(f"rank {os.environ['SLURM_PROCID']} of {os.environ['SLURM_NTASKS']}: {moment}", flush=True)
    if wanted(moment) == "fail":
        print(f"RuntimeError: NCCL fell over at {moment}", flush=True)
        sys.exit(3)
    while wanted(moment) == "wait":
        time.sleep(0.2)


def changes() -> dict[str, object]:
    """Return sections that replace the requested ones in the resolved configuration."""
    return _read().get("resolved", {})


def save(folder: Path, iteration: int) -> None:
    """Save a checkpoint in Bridge's order: the files, the tracker, then the configuration."""
    checkpoint = folder / f"iter_{iteration:07d}"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "common.pt").write_bytes(os.urandom(16))
    (folder / "latest_checkpointed_iteration.txt").write_text(str(iteration))
    (checkpoint / "run_config.yaml").write_text("model: {}\n")


def wanted(moment: str) -> object:
    """Return the behaviour that the test chose for that moment."""
    return _read().get(moment)


def _read() -> dict[str, object]:
    try:
        return json.loads(_FILE.read_text())
    except FileNotFoundError:
        return {}
