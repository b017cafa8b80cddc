"""Our stages without Prefect, on a pool of processes, for comparison with the serial program."""

import io
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.serial import groups
from tasks.audit.models import AuditJob
from tasks.audit.shard import audit_shard
from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.running.groups import spare_imports


def pool_of(workers: int) -> AbstractContextManager[ProcessPoolExecutor | None]:
    """Return a pool of worker processes, or a null context for one worker."""
    return ProcessPoolExecutor(workers, initializer=spare_imports) if workers > 1 else nullcontext()


def run(pool: ProcessPoolExecutor | None, function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
    """Run the jobs on the pool, or in this process without a pool."""
    return pool.map(function, jobs) if pool else map(function, jobs)


def warm(source: Path) -> int:
    """Read every file once, so that it is in the page cache for later readers; return the number of bytes."""
    return sum(len(path.read_bytes()) for path in sorted(source.iterdir()))


def audit(source: Path, audit_dir: Path, workers: int) -> int:
    """Audit all shards; return the number of samples."""
    shards = sorted(path.stem for path in source.glob("*.tar"))
    jobs = [AuditJob(shards_dir=source, audit_dir=audit_dir, shard=shard) for shard in shards]
    with pool_of(workers) as pool:
        audits = list(run(pool, audit_shard, jobs))
    if any(audit.findings for audit in audits):
        raise RuntimeError("the generated shards have findings")
    return sum(audit.samples for audit in audits)


def convert(source: Path, output: Path, audit_dir: Path | None, workers: int) -> int:
    """Scan, plan, write and finish; return the number of samples."""
    settings = ConvertSettings(max_samples_per_tar=2500)
    conversion = Conversion(source, output, audit_dir, settings)
    with pool_of(workers) as pool:
        jobs = list(conversion.scan_jobs())
        for job, _ in zip(jobs, run(pool, scan_shard, jobs), strict=True):
            conversion.scan_ended(job, None)
        plan = conversion.plan()
        for _ in run(pool, write_tar, conversion.write_jobs(plan)):
            pass
    counts = conversion.finish(plan)["counts"]
    return int(counts["train"] + counts["val"])


def decode_floor(source: Path, workers: int) -> tuple[float, float]:
    """Decode every JPEG at the smallest scale with ``workers`` processes; return seconds and CPU seconds.

    Reading the tars is not counted.
    """
    with pool_of(workers) as pool:
        seconds, cpu = zip(*run(pool, _decode, sorted(source.glob("*.tar"))), strict=True)
    return sum(seconds) / workers, sum(cpu)


def _decode(tar: Path) -> tuple[float, float]:
    pictures = [members["jpg"] for _, members in groups(tar)]
    started, used = time.perf_counter(), time.process_time()
    for picture in pictures:
        with Image.open(io.BytesIO(picture)) as image:
            image.draft("L", (1, 1))
            image.load()
    return time.perf_counter() - started, time.process_time() - used
