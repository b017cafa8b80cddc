"""report-dataset: a page that shows the result for every URL and sample of a prepared dataset."""

from prefect import flow, get_run_logger

from tasks.contracts.layout import DataRoot, DatasetName, GivenPath, absolute
from tasks.contracts.settings import ReportSettings
from tasks.report.places import places_in_root
from tasks.report.report import ReportSummary
from tasks.report.task import write_report_task
from tasks.running.flow_lock import alone
from tasks.running.outcomes import ends_in_words, run_task


@flow(name="report-dataset", flow_run_name="report {dataset_name} in {root}")
@ends_in_words
def report_dataset(
    root: GivenPath, dataset_name: DatasetName = "energon", report: ReportSettings = ReportSettings()
) -> ReportSummary:
    """Write reports/<dataset_name>/index.html: one self-contained page with plots, samples and rejects.

    Args:
        root: Data root.
        dataset_name: Folder of the prepared dataset in the data root.
        report: How much of the dataset the report shows.
    """
    data = DataRoot(absolute(root))
    places_in_root(data, dataset_name)
    with alone(data.report(dataset_name).parent, "report"):
        summary = run_task(write_report_task, data.path, dataset_name, report)
    get_run_logger().info("report in %s", summary.path)
    return summary


if __name__ == "__main__":
    from cli.program import run_program

    run_program(report_dataset)
