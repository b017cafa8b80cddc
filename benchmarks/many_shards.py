"""Benchmark of a stage's overhead with as many shards as DataComp-1B has: ``python -m benchmarks.many_shards``.

It runs a flow on a real Prefect server and real Dask workers, then once more with every shard finished. In
audit-download, the audit of a shard is a stub (benchmarks/stub_audit.py) that writes the files of a real audit.
convert-dataset has no stubs: its raw shards hold two small samples each, its output tars three. Disk flushes are off.
"""

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

import dask
from prefect.client.orchestration import get_client
from pydantic import Field

from benchmarks import no_flushes
from benchmarks.folders import emptied
from benchmarks.memory import watched, write_small_shards
from cli.command_line import CommandLine, read_arguments
from cli.results import print_table
from cli.server import free_port, prefect_api, state_folder
from flows.audit import audit_download
from flows.convert import convert_dataset
from tasks.contracts.settings import ConvertSettings

MIB = 1 << 20
SHARD_SAMPLES, TAR_SAMPLES = 2, 3
"""Samples per raw shard and per output tar of convert-dataset: three shards make two tars, as in DataComp-1B."""

PRELOAD = ["benchmarks.no_flushes", "benchmarks.stub_audit"]
"""Modules that Dask workers preload."""


class ManyShardsCommandLine(CommandLine):
    """Run a flow twice over tiny shards, and report time, task runs, database size and requests."""

    folder: Path = Field(Path("build/many-shards"), description="Where shards and receipts are made; emptied first.")
    flow: Literal["audit-download", "convert-dataset"] = Field("audit-download", description="Which flow.")
    shards: int = Field(140_000, ge=1, description="Raw shards.")
    task_runs: int = Field(2000, ge=1, description="Most task runs, as in a cluster profile.")
    workers: int = Field(2, ge=1, description="Dask workers.")


def measure(options: ManyShardsCommandLine) -> dict[str, float]:
    """Measure all figures on a separate server, and return them by name."""
    emptied(options.folder)
    with ProcessPoolExecutor(1) as pool:  # a separate process, so that its cost is not counted as the flow's
        pool.submit(make_shards, options).result()
    os.environ["XDG_STATE_HOME"] = str(options.folder.absolute() / "state")
    os.environ["PREFECT_SERVER_LOGGING_LEVEL"] = "INFO"  # logs one line per request
    no_flushes.dask_setup()
    with dask.config.set({"distributed.worker.preload": PRELOAD}), prefect_api(port=free_port()), watched() as peaks:
        figures = run_twice(options)
    for process, mib in peaks.mib.items():
        name = f"peak memory of a process, {process.rstrip('0123456789 ')}, MiB"
        figures[name] = max(mib, figures.get(name, 0))
    return figures


def run_twice(options: ManyShardsCommandLine) -> dict[str, float]:
    """Run the flow twice; return the cost of each run and its records on the server.

    Raises RuntimeError if a run did not process every shard.
    """
    figures: dict[str, float] = {"shards": options.shards}
    for run in ("first run", "all finished"):
        before, started, used = _server(), time.perf_counter(), time.process_time()
        if (shards := run_flow(options)) != options.shards:
            raise RuntimeError(f"{shards} of {options.shards} shards were taken")
        figures[f"{run}, s"] = time.perf_counter() - started
        figures[f"{run}, CPU of the flow's process, s"] = time.process_time() - used
        figures |= {f"{run}, {name}": value for name, value in _stages(options.folder).items()}
        figures |= {f"{run}, {name}": value - before[name] for name, value in _server().items()}
        figures[f"{run}, ms a shard"] = 1000 * figures[f"{run}, s"] / options.shards
    return figures


def make_shards(options: ManyShardsCommandLine) -> None:
    """Write raw shards for the flow: empty ones for the audit stub, or ones with small samples."""
    shards = options.folder / "shards"
    if options.flow == "convert-dataset":
        write_small_shards(shards, options.shards * SHARD_SAMPLES, SHARD_SAMPLES)
        return
    shards.mkdir(parents=True)
    for number in range(options.shards):
        (shards / f"{number:08d}.tar").touch()
        (shards / f"{number:08d}_stats.json").touch()


def run_flow(options: ManyShardsCommandLine) -> int:
    """Run the flow; return how many shards it processed."""
    shards, profile = options.folder / "shards", options.folder / "profile.yaml"
    dask_workers = f"dask: {{kind: local, workers: {options.workers}}}"
    profile.write_text(f"name: many\ntask_runs: {options.task_runs}\n{dask_workers}\n", encoding="utf-8")
    if options.flow == "audit-download":
        return audit_download(shards, options.folder / "audit", cluster=str(profile)).shards
    settings = ConvertSettings(source_dataset="generated", max_samples_per_tar=TAR_SAMPLES)
    return convert_dataset(shards, options.folder / "out", None, settings, str(profile)).raw_shards_opened


def _stages(folder: Path) -> dict[str, float]:
    """Return the seconds of each stage of the last run from its timings file, and delete the file."""
    path = folder / "out" / ".prepare" / "timings.jsonl"
    if not path.exists():
        return {}
    notes = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.unlink()
    return {f"{note['name']}, s": note["seconds"] for note in notes}


def _server() -> dict[str, float]:
    """Return the server's number of task runs, its database size in MiB, and its number of answered requests."""
    home = state_folder() / "server-1"
    with get_client(sync_client=True) as client:
        task_runs = client.request("POST", "/task_runs/count", json={}).json()
    log = (home / "server.log").read_text(encoding="utf-8", errors="replace")
    database = sum(path.stat().st_size for path in home.glob("prefect.db*"))
    return {"task runs": task_runs, "database MiB": database / MIB, "requests": log.count(" HTTP/1.1")}


def main() -> None:
    """Measure, print, and write ``many-shards.json``."""
    options = read_arguments(ManyShardsCommandLine, sys.argv[1:])
    figures = measure(options)
    print_table("many shards", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder / "many-shards.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
