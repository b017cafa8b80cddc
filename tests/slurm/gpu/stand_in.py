"""Helpers for stand-in Bridge checkouts whose jobs run on the tests' Slurm."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHORT = {"max_steps": 4, "save_interval": 2, "global_batch_size": 1, "poll_seconds": 0.3}


def behave(place: Path, **moments: Any) -> None:
    """Set the behaviour of the stand-in's jobs from now on."""
    path = place / "bridge" / "behaviour.json"
    path.with_suffix(".new").write_text(json.dumps(moments))
    path.with_suffix(".new").replace(path)


def until(holds: Callable[[], Any], seconds: float = 40) -> Any:
    """Wait until ``holds`` returns a true value, and return it."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
    return found
