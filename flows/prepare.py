"""prepare-datacomp: a slice's metadata, its images, their audit, the Energon dataset, its check, and a report."""

from pathlib import Path

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import BaseModel, ConfigDict

from flows.audit import audit_download
from flows.check import check_dataset
from flows.convert import ConvertResult, convert_dataset
from flows.images import download_images
from flows.metadata import download_metadata
from flows.report import report_dataset
from flows.summary import markdown_places, markdown_table, summary_rows
from tasks.audit.models import AuditTotals
from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DataRoot, DatasetName, GivenPath, absolute
from tasks.contracts.settings import CheckSettings, ConvertSettings, DownloadSettings, GateSettings
from tasks.energon.check import CheckSummary
from tasks.images.download import DownloadSummary
from tasks.io.fingerprints import Verify
from tasks.metadata.manifest import ManifestSummary
from tasks.metadata.slices import load_slice
from tasks.report.report import ReportSummary
from tasks.running.outcomes import ends_in_words
from tasks.running.stages import Execution, Stages, cancel_children


class PrepareResult(BaseModel):
    """The result of each stage."""

    model_config = ConfigDict(frozen=True)

    root: Path
    dataset_slice: str
    metadata: ManifestSummary
    download: DownloadSummary
    audit: AuditTotals
    dataset: ConvertResult
    check: CheckSummary
    report: ReportSummary

    def in_words(self) -> str:
        """Summarize the prepared dataset in one line."""
        return f"{self.audit.shards} shards, {self.dataset.counts.in_words()}"


@flow(
    name="prepare-datacomp",
    flow_run_name="prepare {dataset_name} of {dataset_slice} in {root}",
    on_cancellation=[cancel_children],
)
@ends_in_words
def prepare_datacomp(
    root: GivenPath,
    dataset_slice: str = "datacomp-1b-tutorial",
    dataset_name: DatasetName = "energon",
    download: DownloadSettings | None = None,
    gate: GateSettings | None = None,
    convert: ConvertSettings | None = None,
    check: CheckSettings = CheckSettings(),
    cluster: str = "local",
    verify: Verify = "changed",
    execution: Execution = "here",
) -> PrepareResult:
    """Turn a pinned slice of metadata into an indexed and checked Energon dataset, with a report on it.

    Args:
        root: Data root: everything lies in it, and what is there already is not done again.
        dataset_slice: Slice: the name of a shipped one, or the path of a YAML file.
        dataset_name: Folder of the dataset in the data root; several may share one root.
        download: How to download; what is left out comes from the slice.
        gate: What the raw shards must add up to; what is left out comes from the slice.
        convert: How raw samples become training samples; what is left out comes from the slice.
        check: How the dataset is checked.
        cluster: Cluster profile: the name of a shipped one, or the path of a YAML file.
        verify: changed: trust noted hashes of unchanged files; full: hash everything again.
        execution: here: stages run in this process; deployments: each as a run of its own deployment (a Slurm job).
    """
    data, slice_ = DataRoot(absolute(root)), load_slice(dataset_slice)
    _refuse_taken_name(data, dataset_name)
    how = slice_.download_settings(download or DownloadSettings())
    gates = slice_.gate_settings(gate or GateSettings(), how.number_sample_per_shard)
    converting = slice_.convert_settings(convert or ConvertSettings())
    run = Stages(execution, data.results).run
    metadata = run(download_metadata, data.path, dataset_slice, verify)
    downloaded = run(download_images, data.path, dataset_slice, how, verify)
    audit = run(audit_download, data.shards, data.audit, gates, cluster, verify, metadata.metadata_sha256)
    dataset = run(convert_dataset, data.shards, data.dataset(dataset_name), data.audit, converting, cluster, verify)
    checking = check.model_copy(update={"verify": verify}) if verify == "full" else check
    checked = run(check_dataset, dataset.dataset_dir, checking)
    report = run(report_dataset, data.path, dataset_name)
    result = PrepareResult(
        root=data.path,
        dataset_slice=slice_.name,
        metadata=metadata,
        download=downloaded,
        audit=audit,
        dataset=dataset,
        check=checked,
        report=report,
    )
    create_markdown_artifact(
        markdown_table(summary_rows(audit, dataset)) + "\n" + markdown_places(dataset, report),
        key="prepared-dataset",
        description=f"{dataset_name} of {slice_.name}",
    )
    return result


def _refuse_taken_name(data: DataRoot, dataset_name: str) -> None:
    environments = (data.official_env, data.downloader_env, data.upstream)
    places = (data.shards, data.report(""), data.checkpoint(""), data.training(""), data.launch("", ""), *environments)
    if dataset_name in {place.relative_to(data.path).parts[0] for place in places}:
        raise SettingsError(
            f"dataset_name {dataset_name!r} is the name of another folder of a data root; choose another"
        )


if __name__ == "__main__":
    from cli.program import run_program

    run_program(prepare_datacomp)
