"""Estimate of the stages at full scale from the measured cost of a sample: ``python -m benchmarks.scale``.

Time = samples x CPU seconds a sample / cores. Reading = samples x bytes a sample. The file system must then deliver
reading / time; if it cannot, time = reading / its throughput.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import Field

from benchmarks import stages
from benchmarks.folders import emptied
from benchmarks.generate import write_shards
from cli.command_line import CommandLine, read_arguments
from cli.results import print_table
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.running.groups import group_size

SAMPLES_PER_TAR = ConvertSettings().max_samples_per_tar


class ScaleCommandLine(CommandLine):
    """Measure the cost of a sample in one process, and estimate the cost of the reference slice and DataComp-1B."""

    folder: Path = Field(Path("build/scale"), description="Where shards are made; emptied first.")
    samples: int = Field(5000, ge=10, description="Samples to measure on.")
    cores: int = Field(64, ge=1, description="Cores of the node.")
    task_runs: int = Field(2000, ge=1, description="Most task runs of a stage, as in a cluster profile.")


@dataclass(frozen=True)
class Slice:
    """Size of raw data: shards, samples, ``converted`` (samples that become a dataset), and bytes per raw sample."""

    name: str
    shards: int
    samples: int
    converted: int
    sample_bytes: float


SLICES = (
    # 216 shards, 1,326,942 successes, 56 GB: the reference run of July 2026.
    Slice("reference slice", 216, 1_326_942, 525_000, 56e9 / 1_326_942),
    # 1.4 billion rows at 10,000 per shard, with the same success rate (62.2 %) and sample size.
    Slice("DataComp-1B", 140_000, 870_800_000, 870_800_000, 56e9 / 1_326_942),
)


@dataclass(frozen=True)
class Sample:
    """Cost of one sample: CPU milliseconds by stage, and bytes of its rows in index, scan table and plan."""

    audit_ms: float
    scan_ms: float
    write_ms: float
    index_bytes: float
    scan_bytes: float
    plan_bytes: float


def measure(options: ScaleCommandLine) -> Sample:
    """Audit, scan and write generated shards in this process."""
    emptied(options.folder)
    raw, audit, out = (options.folder / name for name in ("raw", "audit", "out"))
    write_shards(raw, 1, options.samples, different=min(options.samples, 100))
    audit_ms = _ms(options, lambda: stages.audit(raw, audit, workers=1))
    conversion = Conversion(raw, out, audit, ConvertSettings())
    scan_ms = _ms(options, lambda: [scan_shard(job) for job in conversion.scan_jobs()])
    for job in conversion.scan_jobs():
        conversion.scan_ended(job, None)
    jobs = conversion.write_jobs(conversion.plan())
    write_ms = _ms(options, lambda: [write_tar(job) for job in jobs])
    prepare = out / ".prepare"
    folders = (audit, prepare / "scan", prepare / "plan")
    per_sample = [sum(path.stat().st_size for path in f.glob("*.parquet")) / options.samples for f in folders]
    return Sample(audit_ms, scan_ms, write_ms, *per_sample)


def _ms(options: ScaleCommandLine, work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return 1000 * (time.process_time() - started) / options.samples


def reckon(options: ScaleCommandLine, sample: Sample, data: Slice) -> dict[str, float]:
    """Return the estimates for each stage: seconds, GB/s, GB, files."""
    scanned = min(data.samples, data.converted)
    figures: dict[str, float] = {}
    for stage, samples, ms in (
        ("audit", data.samples, sample.audit_ms),
        ("scan", scanned, sample.scan_ms),
        ("write", data.converted, sample.write_ms),
    ):
        seconds = samples * ms / 1000 / options.cores
        gigabytes = samples * data.sample_bytes / 1e9
        figures[f"{stage}, seconds if the CPU decides"] = seconds
        figures[f"{stage}, GB read"] = gigabytes
        figures[f"{stage}, GB/s to keep the cores busy"] = gigabytes / seconds
    figures["write, GB written"] = data.converted * data.sample_bytes / 1e9
    tables = data.samples * sample.index_bytes + scanned * sample.scan_bytes + data.converted * sample.plan_bytes
    figures["index, scan tables and plan, GB"] = tables / 1e9
    tars = -(-data.converted // SAMPLES_PER_TAR)
    scanned_shards = -(-data.shards * scanned // data.samples)
    # Raw: tar, Parquet, stats. Audit: index, receipt, three fingerprints. Scan and write: output, receipt, fingerprint.
    figures["files"] = data.shards * (3 + 5) + scanned_shards * 3 + tars * 3
    jobs = (data.shards, scanned_shards, tars)
    figures["task runs"] = sum(-(-count // group_size(count, options.task_runs)) for count in jobs)
    return figures


def main() -> None:
    """Measure, estimate, print, and write ``scale.json``."""
    options = read_arguments(ScaleCommandLine, sys.argv[1:])
    sample = measure(options)
    print_table("one sample", [(name, f"{value:,.3f}") for name, value in asdict(sample).items()])
    reckoned = {data.name: reckon(options, sample, data) for data in SLICES}
    for name, figures in reckoned.items():
        print_table(f"{name}, {options.cores} cores", [(what, f"{value:,.1f}") for what, value in figures.items()])
    target = options.folder / "scale.json"
    target.write_text(json.dumps({"sample": asdict(sample), **reckoned}, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"{target}\n")


if __name__ == "__main__":
    main()
