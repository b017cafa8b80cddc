"""The report stage as Prefect tasks."""

from collections.abc import Iterable
from pathlib import Path

from prefect import task

from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import ReportSettings
from tasks.report.pictures import Sample
from tasks.report.places import places_in_root
from tasks.report.report import ReportSummary, write_report
from tasks.report.training import write_training_report
from tasks.running.outcomes import fails_in_words
from tasks.running.progress import with_progress
from tasks.running.retries import RETRIES


@task(name="write-report", task_run_name="report-{dataset_name}", **RETRIES)
@fails_in_words
def write_report_task(root: Path, dataset_name: str, report: ReportSettings) -> ReportSummary:
    """Write a dataset's report. Safe to retry: the stage only reads, and the page is written atomically."""
    data = DataRoot(root)

    def watch(samples: Iterable[Sample], total: int) -> Iterable[Sample]:
        return with_progress(samples, "report-progress", total, "pictures checked")

    return write_report(places_in_root(data, dataset_name), data.report(dataset_name), report, watch)


@task(name="write-training-report", task_run_name="report-training-{name}", **RETRIES)
@fails_in_words
def write_training_report_task(root: Path, name: str) -> Path:
    """Write a training's report. Safe to retry: the stage only reads, and the page is written atomically."""
    data = DataRoot(root)
    return write_training_report(data.training_log(name), data.training_report(name))
