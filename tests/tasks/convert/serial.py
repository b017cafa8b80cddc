"""Run a conversion's steps one after the other in this process, as the flow does on workers."""

from pathlib import Path
from typing import Any

from tasks.convert.conversion import Conversion
from tasks.convert.scan import scan_shard
from tasks.convert.write import write_tar
from tasks.settings import ConvertSettings


def convert(source: Path, output: Path, settings: ConvertSettings, audit_dir: Path | None = None) -> dict[str, Any]:
    """Convert ``source`` and return the manifest."""
    conversion = Conversion(source, output, audit_dir, settings)
    for job in conversion.scan_jobs():
        scan_shard(job)
        conversion.scan_ended(job, None)
    plan = conversion.plan()
    for job in conversion.write_jobs(plan):
        write_tar(job)
    return conversion.finish(plan)
