"""check-dataset: compare a prepared dataset with its manifest and read every sample back through Energon."""

from pathlib import Path

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact

from tasks.contracts.layout import GivenPath, absolute
from tasks.contracts.settings import CheckSettings
from tasks.energon.check import CheckSummary
from tasks.energon.manifest import PREPARE, SPLITS
from tasks.energon.processor import ProcessorSummary, table_rows
from tasks.energon.task import check_files_task, check_loader_task, check_processor_task
from tasks.io.failure_note import failure_noted
from tasks.running.outcomes import ends_in_words, run_task


@flow(name="check-dataset", flow_run_name="check {dataset_dir}")
@ends_in_words
def check_dataset(dataset_dir: GivenPath, check: CheckSettings = CheckSettings()) -> CheckSummary:
    """Compare tars and index with the manifest, then load every train and val sample once.

    With ``check.processor``, batches of both splits go through the model's own processor first.

    Args:
        dataset_dir: Folder of the prepared dataset.
        check: How it is checked.
    """
    dataset_dir = absolute(dataset_dir)
    with failure_noted(dataset_dir / PREPARE, "check"):
        index = run_task(check_files_task, dataset_dir, check)
        processed = _processed(dataset_dir, check)
        loaded = tuple(run_task(check_loader_task, dataset_dir, split, check) for split in SPLITS)
    return CheckSummary(index=index, loaded=loaded, processed=processed)


def _processed(dataset_dir: Path, check: CheckSettings) -> ProcessorSummary | None:
    """Run the processor, if one is configured, and show its results for the batches."""
    processed = run_task(check_processor_task, dataset_dir, check) if check.processor else None
    if processed:
        description = f"Batches through {check.processor}"
        create_table_artifact(table_rows(processed), key="processor-check", description=description)
        for told in processed.refused:
            get_run_logger().warning("training will skip %s", told)
    return processed


if __name__ == "__main__":
    from cli.program import run_program

    run_program(check_dataset)
