"""Measure ours against a plain serial program, side by side in one run: ``python -m benchmarks.run``.

These machines are shared and noisy: read the ratios, not the seconds.
"""

import json
import resource
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import CliApp

from benchmarks import flow_cost, serial, stages
from benchmarks.generate import write_shards
from flows.program import CommandLine, table
from tasks.energon.index import index_dataset
from tasks.energon.loader import check_loader
from tasks.settings import CheckSettings

KIB = 1024


class BenchmarkCommandLine(CommandLine):
    """Generate shards, measure each stage at 1, 2, … workers against a serial program, print ratios, write JSON."""

    folder: Path = Field(Path("build/benchmark"), description="Where shards are generated and results are written.")
    shards: int = Field(4, ge=1, description="Raw shards.")
    samples: int = Field(5000, ge=10, description="Samples in each.")
    workers: tuple[int, ...] = Field((1, 2), description="Numbers of worker processes to measure.")
    flow: bool = Field(True, description="Measure the cost of flow and task runs too.")


def measure(options: BenchmarkCommandLine) -> dict[str, float]:
    """All figures by name: seconds, ratios (``… x``), bytes."""
    raw = _shards(options)
    figures: dict[str, float] = {"samples": options.shards * options.samples}
    work = options.folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    figures["serial audit s"] = _seconds(serial.audit, raw)
    figures["serial conversion s"] = _seconds(serial.convert, raw, work / "serial")
    for workers in options.workers:
        figures |= _ours(raw, work, workers)
    figures |= _ratios(figures, options.workers)
    dataset = work / f"indexed-{options.workers[-1]}"
    figures["energon index s"] = _seconds(index_dataset, dataset)
    loaded = check_loader(dataset, "val", CheckSettings())
    figures["loader, val split, samples/s"] = loaded.samples / _seconds(
        check_loader, dataset, "val", CheckSettings(verify="full")
    )
    figures["raw bytes"] = sum(path.stat().st_size for path in raw.glob("*.tar"))
    figures["output bytes"] = sum(path.stat().st_size for path in dataset.glob("*.tar"))
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    figures["largest process, bytes"] = peak * KIB
    return figures | (flow_cost.measure(work / "flow") if options.flow else {})


def _ours(raw: Path, work: Path, workers: int) -> dict[str, float]:
    pool: AbstractContextManager[Any] = ProcessPoolExecutor(workers) if workers > 1 else nullcontext()
    audits = work / f"audit-{workers}"
    with pool as processes:
        return {
            f"decode floor, {workers} s": stages.decode_floor(raw, workers, processes),
            f"audit, {workers} s": _seconds(stages.audit, raw, audits, processes),
            f"conversion, {workers} s": _seconds(stages.convert, raw, work / f"plain-{workers}", None, processes),
            f"conversion with index, {workers} s": _seconds(
                stages.convert, raw, work / f"indexed-{workers}", audits, processes
            ),
        }


def _ratios(figures: dict[str, float], workers: tuple[int, ...]) -> dict[str, float]:
    ratios = {}
    for n in workers:
        ratios[f"audit, {n} x"] = figures["serial audit s"] / figures[f"audit, {n} s"]
        for name in ("conversion", "conversion with index"):
            ratios[f"{name}, {n} x"] = figures["serial conversion s"] / figures[f"{name}, {n} s"]
        ratios[f"conversion with index over floor, {n}"] = (
            figures[f"conversion with index, {n} s"] / figures[f"decode floor, {n} s"]
        )
    first, last = workers[0], workers[-1]
    ratios[f"parallel efficiency, {first} to {last}"] = (
        figures[f"conversion with index, {first} s"] / figures[f"conversion with index, {last} s"] * first / last
    )
    return ratios


def _shards(options: BenchmarkCommandLine) -> Path:
    """The generated shards; made once, since they are the same each time."""
    folder = options.folder / f"raw-{options.shards}x{options.samples}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_shards(unfinished, options.shards, options.samples)
        unfinished.rename(folder)
    return folder


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    started = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - started


def main() -> None:
    """Measure, print, and write ``results.json``."""
    options = CliApp.run(BenchmarkCommandLine)
    figures = measure(options)
    table("benchmark", [(name, f"{value:,.2f}") for name, value in figures.items()])
    target = options.folder / "results.json"
    target.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
