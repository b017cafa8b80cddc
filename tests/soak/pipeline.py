"""``python -m tests.soak.pipeline --raw … --folder …``: from raw shards to a checked dataset in one process."""

from pathlib import Path

from prefect import flow

from cli.program import run_program
from flows.audit import audit_download
from flows.check import check_dataset
from flows.convert import convert_dataset
from tasks.contracts.settings import ConvertSettings
from tasks.energon.check import CheckSummary


@flow(name="soak-pipeline")
def soak_pipeline(raw: Path, folder: Path, cluster: str) -> CheckSummary:
    """Audit, convert and check.

    Args:
        raw: Folder of the raw shards.
        folder: Gets the audit and the dataset.
        cluster: Cluster profile.
    """
    audit, dataset = folder / "audit", folder / "out"
    audit_download(raw, audit, cluster=cluster)
    settings = ConvertSettings(max_samples_per_tar=20, validation_fraction=0.2)
    convert_dataset(raw, dataset, audit, settings, cluster)
    return check_dataset(dataset)


if __name__ == "__main__":
    run_program(soak_pipeline)
