"""Run the steps of a conversion in this process, as the flow does on workers."""

import random
from pathlib import Path
from typing import Any

from tasks.contracts.settings import ConvertSettings
from tasks.convert.conversion import Conversion
from tasks.convert.models import Plan, ScanJob
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.io.fingerprints import Verify


def convert(
    source: Path,
    output: Path,
    settings: ConvertSettings,
    audit_dir: Path | None = None,
    *,
    workers: int = 1,
    verify: Verify = "changed",
) -> dict[str, Any]:
    """Convert ``source`` and return the manifest. ``workers``: how many jobs are in flight; they end in any order."""
    conversion = Conversion(source, output, audit_dir, settings, verify)
    plan = scan_and_plan(conversion, workers)
    write(conversion, plan, workers)
    return conversion.finish(plan)


def scan_and_plan(conversion: Conversion, workers: int = 1) -> Plan:
    """Scan as much as the plan needs, and make the plan."""
    conversion.begin()
    rng, in_flight = random.Random(workers), list[ScanJob]()
    for job in conversion.scan_jobs():
        in_flight.append(job)
        if len(in_flight) == workers:
            _scan(conversion, in_flight.pop(rng.randrange(workers)))
    for job in in_flight[::-1]:
        _scan(conversion, job)
    return conversion.plan()


def write(conversion: Conversion, plan: Plan, workers: int = 1) -> None:
    """Write all tars; with several workers, in reverse order."""
    for job in conversion.write_jobs(plan)[:: -1 if workers > 1 else 1]:
        write_tar(job)


def _scan(conversion: Conversion, job: ScanJob) -> None:
    try:
        scan_shard(job)
    except OSError as error:
        conversion.scan_ended(job, error)
    else:
        conversion.scan_ended(job, None)
