"""The Energon stage as Prefect tasks: index a dataset, check its files, load each split, try the model's processor."""

from pathlib import Path

from prefect import task

from tasks.contracts.settings import CheckSettings
from tasks.energon.check import check_files
from tasks.energon.index import IndexSummary, index_dataset
from tasks.energon.loader import LoaderSummary, check_loader
from tasks.energon.manifest import Split, read_manifest
from tasks.energon.processor import ProcessorSummary, check_processor
from tasks.running.outcomes import fails_in_words
from tasks.running.progress import ProgressArtifact
from tasks.running.retries import RETRIES


@task(name="index-energon", task_run_name="index-energon", **RETRIES)
@fails_in_words
def index_dataset_task(dataset_dir: Path, check: CheckSettings) -> IndexSummary:
    """Index a dataset. A retry is safe: what a failed run left is removed first, a finished index is kept."""
    progress = ProgressArtifact("index-progress", len(read_manifest(dataset_dir).samples), "tars")
    summary = index_dataset(dataset_dir, check.verify, progress.at)
    progress.at(summary.shards, now=True)
    return summary


@task(name="verify-energon", task_run_name="verify-energon", **RETRIES)
@fails_in_words
def check_files_task(dataset_dir: Path, check: CheckSettings) -> IndexSummary:
    """Compare tars and index with the manifest. A retry is safe: nothing but notes is written."""
    return check_files(dataset_dir, check)


@task(name="load-energon", task_run_name="load-{split}", **RETRIES)
@fails_in_words
def check_loader_task(dataset_dir: Path, split: Split, check: CheckSettings) -> LoaderSummary:
    """Load every sample of a split once. A retry is safe: the pass reads, and starts from the beginning."""
    progress = ProgressArtifact(f"load-{split}-progress", read_manifest(dataset_dir).count_of(split), "samples")
    summary = check_loader(dataset_dir, split, check, progress.at)
    progress.at(summary.samples, now=True)
    return summary


@task(name="process-energon", task_run_name="process-energon", **RETRIES)
@fails_in_words
def check_processor_task(dataset_dir: Path, check: CheckSettings) -> ProcessorSummary | None:
    """Send batches of both splits through the model's processor. A retry is safe: it reads from the beginning."""
    return check_processor(dataset_dir, check)
