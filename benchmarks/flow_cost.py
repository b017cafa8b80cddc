"""What Prefect and Dask cost: the fixed part of a convert-dataset flow run, and each task run."""

import time
from pathlib import Path

from benchmarks.generate import write_shards
from flows.convert import convert_dataset
from flows.server import free_port, prefect_api

FEW, MANY = 4, 64
"""Numbers of raw shards, of two small samples each, that the slope is taken from."""


def measure(folder: Path) -> dict[str, float]:
    """Seconds of a flow run without its task runs (server not counted), and milliseconds a task run."""
    for shards in (FEW, MANY):
        write_shards(folder / f"raw-{shards}", shards, samples=2, longest=64, different=8)
    with prefect_api(port=free_port()):
        seconds = {shards: _run(folder, shards) for shards in (FEW, MANY)}
    slope = (seconds[MANY] - seconds[FEW]) / (MANY - FEW)
    return {"flow run, fixed s": seconds[FEW] - FEW * slope, "task run ms": 1000 * slope}


def _run(folder: Path, shards: int) -> float:
    started = time.perf_counter()
    convert_dataset(folder / f"raw-{shards}", folder / f"out-{shards}")
    return time.perf_counter() - started
