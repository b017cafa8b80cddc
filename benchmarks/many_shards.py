"""What a stage costs besides its work, with as many shards as DataComp-1B has: ``python -m benchmarks.many_shards``.

The flow audit-download on a real Prefect server and real Dask workers; the audit of a shard is a stub
(benchmarks/stub_audit.py) that leaves the files of a real one. Then once more with every shard finished.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

import dask
from prefect.client.orchestration import get_client
from pydantic import Field

from benchmarks.folders import emptied
from flows.audit import audit_download
from flows.command_line import CommandLine, read_arguments
from flows.program import table
from flows.server import free_port, prefect_api, state_folder

MIB = 1 << 20


class ManyShardsCommandLine(CommandLine):
    """Run audit-download over shards that hold nothing, twice, and tell time, task runs, database and requests."""

    folder: Path = Field(Path("build/many-shards"), description="Where shards and receipts are made; emptied first.")
    shards: int = Field(140_000, ge=1, description="Raw shards.")
    task_runs: int = Field(2000, ge=1, description="Most task runs, as in a cluster profile.")
    workers: int = Field(2, ge=1, description="Dask workers.")


def measure(options: ManyShardsCommandLine) -> dict[str, float]:
    """All figures by name."""
    emptied(options.folder)
    shards, profile = _shards(options), _profile(options)
    os.environ["XDG_STATE_HOME"] = str(options.folder.absolute() / "state")
    os.environ["PREFECT_SERVER_LOGGING_LEVEL"] = "INFO"  # one line a request
    figures: dict[str, float] = {"shards": options.shards}
    with dask.config.set({"distributed.worker.preload": ["benchmarks.stub_audit"]}), prefect_api(port=free_port()):
        for run in ("first run", "all finished"):
            before, started = _server(), time.perf_counter()
            totals = audit_download(shards, options.folder / "audit", cluster=str(profile))
            figures[f"{run}, s"] = time.perf_counter() - started
            if totals.shards != options.shards:
                raise RuntimeError(f"{totals.shards} of {options.shards} shards were audited")
            figures |= {f"{run}, {name}": value - before[name] for name, value in _server().items()}
    figures["first run, ms a task run"] = 1000 * figures["first run, s"] / figures["first run, task runs"]
    figures["all finished, ms a shard"] = 1000 * figures["all finished, s"] / options.shards
    figures["peak memory of the flow's process, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def _shards(options: ManyShardsCommandLine) -> Path:
    folder = options.folder.absolute() / "shards"
    folder.mkdir(parents=True)
    for number in range(options.shards):
        (folder / f"{number:08d}.tar").touch()
        (folder / f"{number:08d}_stats.json").touch()
    return folder


def _profile(options: ManyShardsCommandLine) -> Path:
    path = options.folder / "profile.yaml"
    dask_workers = f"dask: {{kind: local, workers: {options.workers}}}"
    path.write_text(f"name: many\ntask_runs: {options.task_runs}\n{dask_workers}\n", encoding="utf-8")
    return path


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
    options = read_arguments(ManyShardsCommandLine, sys.argv[1:])
    figures = measure(options)
    table("many shards", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder / "many-shards.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
