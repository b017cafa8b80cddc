"""Benchmark of our stages against a plain serial program, side by side in one run: ``python -m benchmarks.run``.

Machines are shared and noisy: compare ratios rather than seconds, and CPU seconds if the machine is busy.
"""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import Field
from rich.console import Console
from rich.table import Table

from benchmarks import flow_cost, plot, serial, stages
from benchmarks.folders import emptied
from benchmarks.generate import write_shards
from benchmarks.measure import Cost, measured
from cli.command_line import CommandLine, read_arguments
from tasks.contracts.settings import CheckSettings
from tasks.energon.index import index_dataset
from tasks.energon.loader import check_loader

Stages = dict[tuple[str, int], Cost]
"""Costs by stage and number of workers; 0 workers: the serial program."""

OURS = ("audit", "conversion", "conversion with index")


class BenchmarkCommandLine(CommandLine):
    """Generate shards, measure each stage at 1, 2, … workers against a serial program, print ratios, write JSON."""

    folder: Path = Field(Path("build/benchmark"), description="Where shards are generated and results are written.")
    shards: int = Field(4, ge=1, description="Raw shards.")
    samples: int = Field(5000, ge=10, description="Samples in each.")
    workers: tuple[int, ...] = Field((1, 2), description="Numbers of worker processes to measure.")
    repeat: int = Field(2, ge=1, description="Rounds of all stages; of each stage the fastest run counts.")
    flow: bool = Field(True, description="Measure the cost of flow and task runs too.")


def measure(options: BenchmarkCommandLine) -> tuple[Stages, dict[str, float]]:
    """Measure every stage; return the costs, and figures by name: ratios, rates, and the cost of a flow run."""
    raw, work = _shards(options), options.folder / "work"
    emptied(work)
    stages.warm(raw)
    rounds = [_round(raw, work, options.workers) for _ in range(options.repeat)]
    costs: Stages = {stage: min((one[stage] for one in rounds), key=lambda cost: cost.seconds) for stage in rounds[0]}
    figures = _ratios(costs, options.workers)
    many, dataset = options.workers[-1], work / "dataset"
    costs["energon index", many] = measured(index_dataset, dataset)[1]
    summary, costs["loader check", many] = measured(check_loader, dataset, "train", CheckSettings(loaders=many))
    figures[f"loader check, samples/s, {many}"] = summary.samples / costs["loader check", many].seconds
    return costs, figures | (flow_cost.measure(work / "flow") if options.flow else {})


def _round(raw: Path, work: Path, workers: tuple[int, ...]) -> Stages:
    """Run every stage once. Keeps only the last dataset: a full page cache would slow down the later stages."""
    costs = {("audit", 0): measured(serial.audit, raw)[1]}
    costs["conversion", 0] = _fresh(work / "dataset", serial.convert, raw, work / "dataset")
    for n in workers:
        costs |= _ours(raw, work, n)
    return costs


def _ours(raw: Path, work: Path, workers: int) -> Stages:
    audits, dataset = work / "audit", work / "dataset"
    (seconds, cpu), cost = measured(stages.decode_floor, raw, workers)
    return {
        ("decoding alone", workers): Cost(seconds, cpu, cost.peak_bytes, cost.bytes_read, cost.bytes_written),
        ("audit", workers): _fresh(audits, stages.audit, raw, audits, workers),
        ("conversion", workers): _fresh(dataset, stages.convert, raw, dataset, None, workers),
        ("conversion with index", workers): _fresh(dataset, stages.convert, raw, dataset, audits, workers),
    }


def _fresh(folder: Path, function: Callable[..., Any], *arguments: Any) -> Cost:
    """Delete ``folder``, run ``function``, which fills it, and return the cost."""
    shutil.rmtree(folder, ignore_errors=True)
    return measured(function, *arguments)[1]


def _ratios(costs: Stages, workers: tuple[int, ...]) -> dict[str, float]:
    """Return ratios of seconds; those named CPU use CPU seconds, which depend less on other load on the machine."""
    ratios = {}
    for name in OURS:
        base = costs["audit" if name == "audit" else "conversion", 0]
        for n in workers:
            ratios[f"{name}, times as fast, {n}"] = base.seconds / costs[name, n].seconds
            ratios[f"{name}, CPU saved, times, {n}"] = base.cpu_seconds / costs[name, n].cpu_seconds
    for name in OURS[1:]:
        for n in workers:
            ours, floor = costs[name, n], costs["decoding alone", n]
            ratios[f"{name} over decoding alone, {n}"] = ours.seconds / floor.seconds
            ratios[f"{name} over decoding alone, CPU, {n}"] = ours.cpu_seconds / floor.cpu_seconds
    first, last = workers[0], workers[-1]
    for name in (*OURS, "decoding alone"):
        gain = costs[name, first].seconds / costs[name, last].seconds
        ratios[f"parallel efficiency of {name}, {first} to {last}"] = gain * first / last
    return ratios


def _shards(options: BenchmarkCommandLine) -> Path:
    """Return the folder of the generated shards, which are made once: they are the same each time."""
    folder = options.folder / f"raw-{options.shards}x{options.samples}"
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write_shards(unfinished, options.shards, options.samples)
        unfinished.rename(folder)
    return folder


def _show(costs: Stages, figures: dict[str, float]) -> None:
    console = Console(file=sys.stdout, width=110)
    stages_table = Table("stage", "workers", "s", "CPU s", "peak MB", "read MB", "written MB", title="What it costs")
    for (name, workers), cost in costs.items():
        sizes = (cost.peak_bytes, cost.bytes_read, cost.bytes_written)
        cells = [f"{cost.seconds:,.2f}", f"{cost.cpu_seconds:,.2f}", *(f"{size / 1e6:,.0f}" for size in sizes)]
        stages_table.add_row(name, str(workers or "serial program"), *cells)
    ratios_table = Table("figure (workers last)", "value", title="Figures")
    for name, value in figures.items():
        ratios_table.add_row(name, f"{value:,.2f}")
    console.print(stages_table, ratios_table)


def main() -> None:
    """Measure, print, and write ``results.json`` and ``results.svg``."""
    options = read_arguments(BenchmarkCommandLine, sys.argv[1:])
    costs, figures = measure(options)
    _show(costs, figures)
    rows = [{"stage": name, "workers": workers, **asdict(cost)} for (name, workers), cost in costs.items()]
    results = {"samples": options.shards * options.samples, "costs": rows, "figures": figures}
    (options.folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    speed = {name: [figures[f"{name}, times as fast, {n}"] for n in options.workers] for name in OURS}
    floor = [costs["conversion", 0].seconds / costs["decoding alone", n].seconds for n in options.workers]
    plot.draw(options.folder / "results.svg", options.workers, speed, floor)
    sys.stdout.write(f"{options.folder / 'results.json'}\n{options.folder / 'results.svg'}\n")


if __name__ == "__main__":
    main()
