"""Peak memory of one worker on one large shard: ``python -m benchmarks.worker_memory --samples 10000``.

Each stage runs in a separate process, like a Dask worker, on a shard of that many 49 kB JPEGs. The peak is read from
the operating system.
"""

import argparse
import multiprocessing
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.generate import write_shards
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar

_DIFFERENT_JPEGS = 50
SETTINGS = ConvertSettings(validation_fraction=0)


def audit(folder: Path) -> None:
    """Audit the shard."""
    audit_shard(AuditJob(shards_dir=folder / "raw", audit_dir=folder / "audit", shard="00000000"))


def scan(folder: Path) -> None:
    """Scan the shard."""
    scan_shard(next(conversion(folder).scan_jobs()))


def plan(folder: Path) -> None:
    """Plan its samples into one tar."""
    _planned(folder)


def write(folder: Path) -> None:
    """Write the tar."""
    converting, made = _planned(folder)
    write_tar(converting.write_jobs(made)[0])


def conversion(folder: Path) -> Conversion:
    """Return the conversion of the shard."""
    return Conversion(folder / "raw", folder / "out", folder / "audit", SETTINGS)


def _planned(folder: Path) -> tuple[Conversion, Any]:
    converting = conversion(folder)
    for job in list(converting.scan_jobs()):
        converting.scan_ended(job, None)
    return converting, converting.plan()


def peak_megabytes(stage: Callable[[Path], None], folder: Path) -> int:
    """Run the stage in a new process and return its peak memory in MiB."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_run, (stage, folder))


def _run(stage: Callable[[Path], None], folder: Path) -> int:
    stage(folder)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(peak[1]) // 1024 if peak else 0


def main(samples: int) -> None:
    """Print each stage's peak."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder / "raw", 1, samples, different=_DIFFERENT_JPEGS)
        size = (folder / "raw" / "00000000.tar").stat().st_size
        sys.stdout.write(f"one shard of {samples:,} samples, {size / 1e6:,.0f} MB\n")
        for stage in (audit, scan, plan, write):
            sys.stdout.write(f"{stage.__name__:6} {peak_megabytes(stage, folder):5} MB at most\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=10_000)
    main(parser.parse_args().samples)
