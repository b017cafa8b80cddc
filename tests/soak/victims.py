"""The programs to kill: the small pipeline from raw shards on, and the quickstart with its download."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import ROOT
from tests.faults.marks import SITE, Faults
from tests.tasks.raw_shards import sample, write_shard, write_stats

SHARDS = 6
SAMPLES = 25
STAGES = ("start", "audit", "scan", "plan", "write", "index", "check")
DOWNLOAD_STAGES = ("start", "metadata", "download", *STAGES[1:], "report")


def write_raw_shards(folder: Path) -> Path:
    """Write shards of good samples, blank captions, broken pictures and repeated uids."""
    for shard in range(SHARDS):
        samples = [sample(f"{shard:04d}{n:05d}", shard * SAMPLES + n) for n in range(SAMPLES - 3)]
        samples.append(sample(f"{shard:04d}00022", 9000 + shard, " "))
        samples.append(sample(f"{shard:04d}00023", 9100 + shard, jpg=b"no picture"))
        samples.append(sample(f"{shard:04d}00024", 0))
        write_shard(folder, shard, samples)
        write_stats(folder, shard, SAMPLES)
    return folder


def pipeline(raw: Path, folder: Path) -> list[str]:
    """Return the command that converts raw shards to a checked dataset in ``folder``."""
    cluster = folder / "two-workers.yaml"
    cluster.parent.mkdir(parents=True, exist_ok=True)
    cluster.write_text("name: soak\ndask: {kind: local, workers: 2}\n", encoding="utf-8")
    return _program("tests.soak.pipeline", "--raw", str(raw), "--folder", str(folder), "--cluster", str(cluster))


def quickstart(root: Path) -> list[str]:
    """Return the command of the whole pipeline with its own web server."""
    return _program("flows.quickstart", "--root", str(root))


def environment(url: str, faults: Faults) -> dict[str, str]:
    """Return the environment of the programs, in which they record the work that they begin."""
    return os.environ | faults.environment | {"PREFECT_API_URL": url, "PYTHONPATH": f"{SITE}:{ROOT}"}


def stage_of(audit: Path, dataset: Path) -> str:
    """Return the stage that a folder has reached, judged by its files."""
    prepare = dataset / ".prepare"
    if not (audit / "totals.json").exists():
        return "audit" if audit.exists() else "start"
    if not (prepare / "plan.json").exists():
        scanned, expected = _count(prepare / "scan", "*.json"), _count(audit, "*.index.parquet")
        return "scan" if scanned < expected else "plan"
    if not (dataset / "manifest.json").exists():
        return "write"
    return "check" if (prepare / "index-receipt.json").exists() else "index"


def stage_of_root(root: Path) -> str:
    """Return the stage that a data root has reached."""
    if (root / "reports").exists():
        return "report"
    if not (root / "raw" / "metadata" / "metadata-manifest.json").exists():
        return "metadata" if (root / "raw" / "metadata").exists() else "start"
    if not (root / "raw" / "audit").exists():
        return "download"
    return stage_of(root / "raw" / "audit", root / "energon")


def unfinished(begun: Iterable[str], audit: Path, dataset: Path) -> set[str]:
    """Return the work that has begun and has no receipt."""
    return {work for work in begun if not _receipt(work, audit, dataset).exists()}


def _receipt(work: str, audit: Path, dataset: Path) -> Path:
    stage, _, name = work.partition("-")
    if stage == "audit":
        return audit / f"{name}.json"
    split, _, number = name.partition("-")
    return dataset / ".prepare" / stage / (f"{name}.json" if stage == "scan" else f"{split}-shard-{number}.tar.json")


def _program(*command: str) -> list[str]:
    return [sys.executable, "-m", *command]


def _count(folder: Path, pattern: str) -> int:
    return len(list(folder.glob(pattern)))
