"""Peak memory of every process of a conversion of 525,000 small samples: ``python -m benchmarks.memory``."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from pydantic import Field

from benchmarks.folders import emptied
from benchmarks.generate import SEED, jpegs, members
from cli.command_line import CommandLine, read_arguments
from cli.results import print_table
from cli.server import free_port, prefect_api
from flows.convert import convert_dataset
from tasks.contracts.settings import ConvertSettings
from tasks.convert.output_tar import OutputTar

SHARD_SAMPLES = 10_000
LOOK_SECONDS = 0.5


class MemoryCommandLine(CommandLine):
    """Convert small generated samples with the flow, and report the peak memory of each process."""

    folder: Path = Field(Path("build/memory"), description="Where shards and dataset are made; emptied first.")
    samples: int = Field(525_000, ge=1, description="Samples to convert.")
    cluster: str = Field("local", description="Cluster profile.")


def write_small_shards(folder: Path, samples: int, shard_samples: int = SHARD_SAMPLES) -> None:
    """Write raw shards of ``shard_samples`` samples with images of 48 pixels."""
    folder.mkdir(parents=True)
    pool = jpegs(200, 48, np.random.default_rng(SEED))
    for shard, start in enumerate(range(0, samples, shard_samples)):
        with (folder / f"{shard:08d}.tar").open("wb") as file, OutputTar(file) as tar:
            for name, data in members(shard, min(shard_samples, samples - start), pool):
                tar.add(name, data)
            tar.close()


class Peaks:
    """Peak memory in MiB of this process and all its descendants, from the kernel, by kind of process."""

    def __init__(self) -> None:
        self.mib: dict[str, float] = {}
        self.over = threading.Event()

    def look(self) -> None:
        """Poll the processes until ``over`` is set."""
        while not self.over.wait(LOOK_SECONDS):
            this = psutil.Process()
            for process in [this, *this.children(recursive=True)]:
                try:
                    name = "flow" if process == this else f"{_kind(process)} {process.pid}"
                    self.mib[name] = max(self.mib.get(name, 0), _peak_mib(process.pid))
                except (psutil.Error, OSError, StopIteration):
                    continue  # the process has ended


def _kind(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    kinds = {
        "spawn_main": "Dask worker",
        "resource_tracker": "resource tracker",
        "cli.server": "server",
        "cli.guard": "server",
        "prefect": "server",
        "energon": "Energon index",
    }
    return next((kind for word, kind in kinds.items() if word in command), Path(command.split(" ")[0]).name)


def _peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


@contextmanager
def watched() -> Iterator[Peaks]:
    """Record peak memory while the block runs."""
    peaks = Peaks()
    thread = threading.Thread(target=peaks.look)
    thread.start()
    try:
        yield peaks
    finally:
        peaks.over.set()
        thread.join()


def main() -> None:
    """Measure, print, and write ``memory.json``."""
    options = read_arguments(MemoryCommandLine, sys.argv[1:])
    emptied(options.folder)
    with ProcessPoolExecutor(1) as pool:  # a separate process, so that its memory is not counted as the flow's
        pool.submit(write_small_shards, options.folder / "raw", options.samples).result()
    with prefect_api(port=free_port()), watched() as peaks:
        started = time.perf_counter()
        settings = ConvertSettings(source_dataset="generated")
        result = convert_dataset(options.folder / "raw", options.folder / "out", None, settings, options.cluster)
        seconds = time.perf_counter() - started
    figures = {"samples": float(result.counts.train + result.counts.val), "seconds": seconds}
    figures |= {f"peak MiB, {name}": mib for name, mib in sorted(peaks.mib.items())}
    print_table("memory", [(name, f"{value:,.0f}") for name, value in figures.items()])
    target = options.folder / "memory.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
