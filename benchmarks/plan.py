"""Benchmark of planning millions of samples, in time and memory: ``python -m benchmarks.plan``.

Scan tables are synthetic: random uids, one sample in a hundred is a copy of an earlier one, one in fifty a reject.
Each size is measured in a separate process, once with all uids in memory and once in parts, on two processes.
"""

import functools
import json
import multiprocessing
import resource
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from benchmarks.folders import emptied
from cli.command_line import CommandLine, read_arguments
from cli.results import print_table
from tasks.contracts.settings import ConvertSettings
from tasks.convert.models import PrepareFolder, ScanSummary
from tasks.convert.oddities import NOT_FINITE
from tasks.convert.plan import byte_settings, decide, make_plan
from tasks.convert.plan_files import write_plan
from tasks.convert.plan_rows import PlanRows, Scan
from tasks.convert.scan import SCHEMA
from tasks.convert.uids import UidsInMemory, UidsOnDisk, find_copies
from tasks.io.fingerprints import Fingerprint

SHARD_ROWS = 10_000
SETTINGS = ConvertSettings()

Result = TypeVar("Result")


class PlanCommandLine(CommandLine):
    """Plan synthetic scan tables of several sizes, and report seconds, memory and the slope between sizes."""

    folder: Path = Field(Path("build/plan"), description="Where scan tables are made; emptied first and last.")
    millions: tuple[int, ...] = Field((10, 50), description="Two or more sizes, in millions of samples.", min_length=2)


def measure(folder: Path, rows: int, in_parts: bool) -> tuple[str, dict[str, float]]:
    """Plan ``rows`` samples; return the plan's identity, the seconds of each step, and the peak memory in MiB."""
    shards = rows // SHARD_ROWS
    scans = [_scan(folder, shard) for shard in range(shards)]
    prepare = PrepareFolder(dataset_dir=folder / "out")
    before, cpu = _peak_mib(), _cpu_seconds()
    figures: dict[str, float] = {}
    started = time.perf_counter()
    uids = UidsOnDisk(prepare.uids, rows) if in_parts else UidsInMemory(rows)
    plan_rows = PlanRows(scans, uids, SETTINGS.validation_fraction, frozenset())
    figures["read, s"] = -started + (started := time.perf_counter())
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(find_copies, uids.jobs()))
    decision = decide(scans, plan_rows, None)
    figures["search and decide, s"] = -started + (started := time.perf_counter())
    plan = make_plan(scans, decision, byte_settings(SETTINGS, frozenset()), shards, oddities={NOT_FINITE: 0})
    write_plan(prepare, plan, decision, scans)
    figures["identity and files, s"] = -started + time.perf_counter()
    figures["whole plan, s"] = sum(figures.values())
    figures["whole plan, CPU s"] = _cpu_seconds() - cpu
    figures["copies"] = plan.counts.skip_reasons["duplicate_uid"]
    figures["peak memory, MiB"] = _peak_mib()
    figures["memory, bytes a sample"] = (_peak_mib() - before) * (1 << 20) / rows
    shutil.rmtree(prepare.path)
    return plan.identity, figures


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _scan(folder: Path, shard: int) -> Scan:
    name = f"{shard:08d}.tar"
    summary = ScanSummary(shard=name, samples=SHARD_ROWS, usable=SHARD_ROWS)
    return Scan(summary, Fingerprint(name=name, size=0, sha256="0" * 64), folder / f"{shard:08d}.parquet")


def write_scan(folder: Path, shard: int) -> None:
    """Write a scan table like that of a raw shard with SHARD_ROWS samples."""
    rng = np.random.default_rng(shard)
    uids = rng.bytes(16 * SHARD_ROWS)
    if shard:  # copies: the second hundredth of an earlier shard's uids
        part = 16 * SHARD_ROWS // 100
        uids = np.random.default_rng(shard // 2).bytes(16 * SHARD_ROWS)[part : 2 * part] + uids[part:]
    offsets = pa.py_buffer(np.arange(0, 32 * SHARD_ROWS + 1, 32, dtype=np.int32))
    rejected = [None if number % 50 else "empty_caption" for number in range(SHARD_ROWS)]
    columns = {
        "key": [b"%05d%07d" % (shard, number) for number in range(SHARD_ROWS)],
        "uid": pa.StringArray.from_buffers(SHARD_ROWS, offsets, pa.py_buffer(uids.hex().encode())),
        "after_uid": rejected,
        "split_hash": rng.integers(0, 2**64, SHARD_ROWS, dtype=np.uint64),
        "digest": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), SHARD_ROWS, [None, pa.py_buffer(rng.bytes(16 * SHARD_ROWS))]
        ),
    }
    for name in SCHEMA.names:
        if name.endswith("_offset"):
            columns[name] = np.arange(SHARD_ROWS, dtype=np.int64) * 51_200
        elif name.endswith("_size"):
            columns[name] = rng.integers(10_000, 90_000, SHARD_ROWS)
    arrays = [pa.array(columns.get(name, [None] * SHARD_ROWS), SCHEMA.field(name).type) for name in SCHEMA.names]
    pq.write_table(pa.table(arrays, schema=SCHEMA), folder / f"{shard:08d}.parquet")


def _alone(function: Callable[[], Result]) -> Result:
    """Call the function in a new process, so that the measured peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function).result()


def main() -> None:
    """Measure, print, and write ``plan.json`` beside the folder."""
    options = read_arguments(PlanCommandLine, sys.argv[1:])
    emptied(options.folder)
    with ProcessPoolExecutor(2) as pool:
        shards = range(max(options.millions) * 1_000_000 // SHARD_ROWS)
        list(pool.map(functools.partial(write_scan, options.folder), shards, chunksize=50))
    figures: dict[str, float] = {}
    for millions in options.millions:
        rows = millions * 1_000_000
        whole, in_memory = _alone(functools.partial(measure, options.folder, rows, False))
        parts, in_parts = _alone(functools.partial(measure, options.folder, rows, True))
        if whole != parts:
            raise RuntimeError(f"the plan of {millions} million samples is another one when it is made in parts")
        figures |= {f"{millions} million in memory: {name}": value for name, value in in_memory.items()}
        figures |= {f"{millions} million in parts: {name}": value for name, value in in_parts.items()}
    first, *_, last = options.millions
    for how in ("in memory", "in parts"):
        cpu = [figures[f"{millions} million {how}: whole plan, CPU s"] for millions in (first, last)]
        figures[f"{how}: CPU microseconds a further sample"] = (cpu[1] - cpu[0]) / (last - first)
    shutil.rmtree(options.folder)
    print_table("plan", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder.with_suffix(".json")
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
