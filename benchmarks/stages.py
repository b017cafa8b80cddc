"""Our stages without Prefect, on a pool of processes: what the benchmark holds against the serial program."""

import io
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.serial import groups
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.settings import ConvertSettings


def run(pool: ProcessPoolExecutor | None, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Run the jobs on the pool, or here."""
    return pool.map(function, jobs) if pool else map(function, jobs)


def audit(source: Path, audit_dir: Path, pool: ProcessPoolExecutor | None) -> int:
    """Audit all shards; returns the number of samples."""
    shards = sorted(path.stem for path in source.glob("*.tar"))
    jobs = [AuditJob(shards_dir=source, audit_dir=audit_dir, shard=shard) for shard in shards]
    audits = list(run(pool, audit_shard, jobs))
    if any(audit.findings for audit in audits):
        raise RuntimeError("the generated shards have findings")
    return sum(audit.samples for audit in audits)


def convert(source: Path, output: Path, audit_dir: Path | None, pool: ProcessPoolExecutor | None) -> int:
    """Scan, plan, write and finish; returns the number of samples."""
    shutil.rmtree(output, ignore_errors=True)
    settings = ConvertSettings(max_samples_per_tar=2500)
    conversion = Conversion(source, output, audit_dir, settings)
    jobs = list(conversion.scan_jobs())
    for job, _ in zip(jobs, run(pool, scan_shard, jobs), strict=True):
        conversion.scan_ended(job, None)
    plan = conversion.plan()
    for _ in run(pool, write_tar, conversion.write_jobs(plan)):
        pass
    counts = conversion.finish(plan)["counts"]
    return int(counts["train"] + counts["val"])


def decode_floor(source: Path, workers: int, pool: ProcessPoolExecutor | None) -> float:
    """Seconds that ``workers`` processes need to decode every JPEG at the smallest scale, and nothing else."""
    return sum(run(pool, _decode_seconds, sorted(source.glob("*.tar")))) / workers


def _decode_seconds(tar: Path) -> float:
    pictures = [members["jpg"] for _, members in groups(tar)]
    started = time.perf_counter()
    for picture in pictures:
        with Image.open(io.BytesIO(picture)) as image:
            image.draft("L", (1, 1))
            image.load()
    return time.perf_counter() - started
