"""The Energon stage as Prefect tasks: index a dataset, check files, load each split, run the model's processor."""

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
    """Index a dataset. Safe to retry: it keeps a finished index and first removes the files of a failed run."""
    progress = ProgressArtifact("index-progress", len(read_manifest(dataset_dir).samples), "tars")
    summary = index_dataset(dataset_dir, check.verify, progress.at)
    progress.at(summary.shards, now=True)
    return summary


@task(name="verify-energon", task_run_name="verify-energon", **RETRIES)
@fails_in_words
def check_files_task(dataset_dir: Path, check: CheckSettings) -> IndexSummary:
    """Compare tars and index with the manifest. Safe to retry: it only records fingerprints."""
    return check_files(dataset_dir, check)


@task(name="load-energon", task_run_name="load-{split}", **RETRIES)
@fails_in_words
def check_loader_task(dataset_dir: Path, split: Split, check: CheckSettings) -> LoaderSummary:
    """Load every sample of a split once. Safe to retry: it only reads, and starts from the beginning."""
    progress = ProgressArtifact(f"load-{split}-progress", read_manifest(dataset_dir).count_of(split), "samples")
    summary = check_loader(dataset_dir, split, check, progress.at)
    progress.at(summary.samples, now=True)
    return summary


@task(name="process-energon", task_run_name="process-energon", **RETRIES)
@fails_in_words
def check_processor_task(dataset_dir: Path, check: CheckSettings) -> ProcessorSummary | None:
    """Send batches of both splits through the model's processor. Safe to retry: it starts from the beginning."""
    return check_processor(dataset_dir, check)
