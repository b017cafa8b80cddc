"""Benchmark of Prefect and Dask: the fixed cost of a convert-dataset flow run, and the cost per task run."""

import time
from pathlib import Path

from benchmarks.generate import write_shards
from cli.server import free_port, prefect_api
from flows.convert import convert_dataset

FEW, MANY = 4, 64
"""Numbers of raw shards, with two small samples each, from which the slope is computed."""


def measure(folder: Path) -> dict[str, float]:
    """Measure seconds of a flow run without its task runs (and without the server), and milliseconds per task run.

    CPU time is that of the flow's own process, which submits one task run after the other.
    """
    for shards in (FEW, MANY):
        write_shards(folder / f"raw-{shards}", shards, samples=2, longest=64, different=8)
    with prefect_api(port=free_port()):
        (few, few_cpu), (many, many_cpu) = (_run(folder, shards) for shards in (FEW, MANY))
    slope = (many - few) / (MANY - FEW)
    return {
        "flow run, fixed s": few - FEW * slope,
        "task run, ms": 1000 * slope,
        "task run, CPU of the flow's process, ms": 1000 * (many_cpu - few_cpu) / (MANY - FEW),
    }


def _run(folder: Path, shards: int) -> tuple[float, float]:
    started, used = time.perf_counter(), time.process_time()
    convert_dataset(folder / f"raw-{shards}", folder / f"out-{shards}")
    return time.perf_counter() - started, time.process_time() - used
