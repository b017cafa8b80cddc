"""What a stage costs besides its work, with as many shards as DataComp-1B has: ``python -m benchmarks.many_shards``.

A flow on a real Prefect server and real Dask workers, then once more with every shard finished. Of audit-download the
audit of a shard is a stub (benchmarks/stub_audit.py) that leaves the files of a real one. Of convert-dataset nothing
is: its raw shards hold two small samples each, its output tars three.
"""

import contextlib
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

import dask
from prefect.client.orchestration import get_client
from pydantic import Field
from pydantic_settings import CliApp

from benchmarks.memory import write_small_shards
from flows.audit import audit_download
from flows.command_line import CommandLine
from flows.convert import convert_dataset
from flows.program import table
from flows.server import free_port, prefect_api, state_folder
from tasks.settings import ConvertSettings

MIB = 1 << 20
SHARD_SAMPLES, TAR_SAMPLES = 2, 3
"""Samples a raw shard and an output tar of convert-dataset: three shards make two tars, as in DataComp-1B."""


class ManyShardsCommandLine(CommandLine):
    """Run a flow over shards that hold next to nothing, twice, and tell time, task runs, database and requests."""

    folder: Path = Field(Path("build/many-shards"), description="Where shards and receipts are made; emptied first.")
    flow: Literal["audit-download", "convert-dataset"] = Field("audit-download", description="Which flow.")
    shards: int = Field(140_000, ge=1, description="Raw shards.")
    task_runs: int = Field(2000, ge=1, description="Most task runs, as in a cluster profile.")
    workers: int = Field(2, ge=1, description="Dask workers.")


def measure(options: ManyShardsCommandLine) -> dict[str, float]:
    """All figures by name."""
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    run_flow = (_audit if options.flow == "audit-download" else _convert)(options, str(_profile(options)))
    os.environ["XDG_STATE_HOME"] = str(options.folder.absolute() / "state")
    os.environ["PREFECT_SERVER_LOGGING_LEVEL"] = "INFO"  # one line a request
    figures: dict[str, float] = {"shards": options.shards}
    with prefect_api(port=free_port()):
        for run in ("first run", "all finished"):
            before, started, used = _server(), time.perf_counter(), time.process_time()
            if (shards := run_flow()) != options.shards:
                raise RuntimeError(f"{shards} of {options.shards} shards were taken")
            figures[f"{run}, s"] = time.perf_counter() - started
            figures[f"{run}, CPU of the flow's process, s"] = time.process_time() - used
            figures |= {f"{run}, {name}": value for name, value in _stages(options.folder).items()}
            figures |= {f"{run}, {name}": value - before[name] for name, value in _server().items()}
    figures["first run, ms a task run"] = 1000 * figures["first run, s"] / figures["first run, task runs"]
    figures["first run, ms a shard"] = 1000 * figures["first run, s"] / options.shards
    figures["all finished, ms a shard"] = 1000 * figures["all finished, s"] / options.shards
    figures["peak memory of the flow's process, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def _audit(options: ManyShardsCommandLine, profile: str) -> Callable[[], int]:
    """A run of audit-download over empty files; it returns how many shards were audited."""
    shards = options.folder.absolute() / "shards"
    shards.mkdir()
    for number in range(options.shards):
        (shards / f"{number:08d}.tar").touch()
        (shards / f"{number:08d}_stats.json").touch()

    def run() -> int:
        with dask.config.set({"distributed.worker.preload": ["benchmarks.stub_audit"]}):
            return audit_download(shards, options.folder / "audit", cluster=profile).shards

    return run


def _convert(options: ManyShardsCommandLine, profile: str) -> Callable[[], int]:
    """A run of convert-dataset over small samples; it returns how many shards were opened."""
    shards = options.folder.absolute() / "shards"
    with ProcessPoolExecutor(1) as pool:  # what making them takes is not the flow's
        pool.submit(write_small_shards, shards, options.shards * SHARD_SAMPLES, SHARD_SAMPLES).result()
    settings = ConvertSettings(source_dataset="generated", max_samples_per_tar=TAR_SAMPLES)

    def run() -> int:
        return convert_dataset(shards, options.folder / "out", None, settings, profile).raw_shards_opened

    return run


def _profile(options: ManyShardsCommandLine) -> Path:
    path = options.folder / "profile.yaml"
    dask_workers = f"dask: {{kind: local, workers: {options.workers}}}"
    path.write_text(f"name: many\ntask_runs: {options.task_runs}\n{dask_workers}\n", encoding="utf-8")
    return path


def _stages(folder: Path) -> dict[str, float]:
    """Seconds of each stage of the last conversion, as it noted them."""
    with contextlib.suppress(FileNotFoundError):
        notes = map(json.loads, (folder / "out" / ".prepare" / "timings.jsonl").read_text("utf-8").splitlines())
        return {f"{note['name']}, s": note["seconds"] for note in notes}
    return {}


def _server() -> dict[str, float]:
    """Task runs that the server knows, its database in MiB, and requests that it answered."""
    home = state_folder() / "server-1"
    with get_client(sync_client=True) as client:
        task_runs = client.request("POST", "/task_runs/count", json={}).json()
    log = (home / "server.log").read_text(encoding="utf-8", errors="replace")
    database = sum(path.stat().st_size for path in home.glob("prefect.db*"))
    return {"task runs": task_runs, "database MiB": database / MIB, "requests": log.count(" HTTP/1.1")}


def main() -> None:
    """Measure, print, and write ``many-shards.json``."""
    options = CliApp.run(ManyShardsCommandLine)
    figures = measure(options)
    table("many shards", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder / "many-shards.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
