"""Benchmark of the viewer on a dataset of the reference slice's size: ``python -m benchmarks.viewer``.

The dataset has the real number of shards and samples, in tables written by the conversion's own code. Its tars are
hard links to one small tar: the viewer reads only a few byte ranges of them.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from benchmarks.generate import write_shards
from cli.command_line import CommandLine, read_arguments
from cli.results import print_table
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.sample import split_hash
from tasks.convert.scan import scan_shard


class ViewerBenchmarkCommandLine(CommandLine):
    """Create a dataset's tables once, start the viewer on them, and measure how long a user waits."""

    folder: Path = Field(Path("build/viewer-benchmark"), description="Where the dataset is made and results go.")
    shards: int = Field(86, ge=1, description="Raw shards.")
    samples: int = Field(6105, ge=10, description="Samples in each.")


def make_dataset(root: Path, shards: int, samples: int) -> Path:
    """Create a dataset in ``root``, a new data root: tables of ``shards`` x ``samples`` samples, no output tars."""
    data = DataRoot(root)
    write_shards(data.shards, 1, samples, longest=64, different=16)
    first = data.shards / "00000000.tar"
    for number in range(1, shards):
        (data.shards / f"{number:08d}.tar").hardlink_to(first)
    conversion = Conversion(data.shards, data.dataset(), None, ConvertSettings(max_samples_per_tar=10_000))
    job, *others = conversion.scan_jobs()
    summary = scan_shard(job)
    conversion.scan_ended(job, None)
    scanned = pq.read_table(job.table_path, partitioning=None)
    for number, other in enumerate(others, 1):
        pq.write_table(_with_other_uids(scanned, number), other.table_path)
        conversion.scanned[other.shard] = summary.model_copy(update={"shard": other.tar.name})
    conversion.plan()
    for number in range(shards):
        _write_downloaders_table(data.shards / f"{number:08d}.parquet", scanned, number)
    return data.dataset()


def _with_other_uids(scanned: pa.Table, number: int) -> pa.Table:
    uids = [f"{number:08x}{uid[8:]}" for uid in scanned["uid"].to_pylist()]
    columns = {"uid": pa.array(uids), "split_hash": pa.array(map(split_hash, uids), pa.uint64())}
    for name, values in columns.items():
        scanned = scanned.set_column(scanned.schema.get_field_index(name), name, values.cast(scanned[name].type))
    return scanned


def _write_downloaders_table(path: Path, scanned: pa.Table, number: int) -> None:
    keys = [key.decode() for key in scanned["key"].to_pylist()]
    captions = [
        f"A generated view number {row} of shard {number}, with hills, light and water" for row in range(len(keys))
    ]
    pq.write_table(pa.table({"key": keys, "caption": captions}), path)


def measure(dataset: Path) -> dict[str, float]:
    """Return seconds by user action, and CPU seconds for the first page, which depend less on other load."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with _viewer(dataset) as address:
        httpx.get(address, trust_env=False).raise_for_status()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    started = time.perf_counter()
    with _viewer(dataset) as address, httpx.Client(base_url=address, trust_env=False) as client:
        figures = {"from the command to the address": time.perf_counter() - started}
        asked = {
            "first page": "/",
            "first page again": "/",
            "60th page": "/?page=60",
            "filter by split and size": "/?split=val&smallest=10",
            "first search of captions": "/?text=shard+7,",
            "second search of captions": "/?text=number+4711",
            "a sample": "/sample/400000",
        }
        for name, path in asked.items():
            figures[name] = _seconds(lambda path=path: client.get(path, timeout=120).raise_for_status())
        figures["its 60 thumbnails, one after the other"] = _seconds(
            lambda: [client.get(f"/thumb/{row}.jpg").raise_for_status() for row in range(60)]
        )
    figures["from the command to the first page"] = figures["from the command to the address"] + figures["first page"]
    return figures | {"processor time of that": cpu}


@contextmanager
def _viewer(dataset: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "cli", "browse", "--dataset", str(dataset), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"http://\S+", line)
        if found is None:
            raise RuntimeError(f"the viewer did not start: {line}")
        try:
            yield found[0]
        finally:
            process.terminate()


def _seconds(act: Callable[[], Any]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def main() -> None:
    """Create the dataset if it is missing, measure, print, and write ``results.json``."""
    options = read_arguments(ViewerBenchmarkCommandLine, sys.argv[1:])
    root = options.folder / f"{options.shards}x{options.samples}"
    if not (root / "energon").exists():
        unfinished = root.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make_dataset(unfinished.absolute(), options.shards, options.samples)
        unfinished.rename(root)
    figures = {"samples": float(options.shards * options.samples), **measure(root / "energon")}
    print_table("viewer, seconds", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder / "results.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
