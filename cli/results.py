"""Print flow results for people."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.server import Api
from flows.prepare import PrepareResult
from flows.summary import summary_rows
from tasks.io.files import shown_text
from tasks.report.report import ReportSummary
from tasks.running.outcomes import Told


def print_result(flow_name: str, result: Told, api: Api) -> None:
    """Print a flow's result on stdout: as a table if the flow has one, else as one sentence."""
    printer = _TABLES.get(flow_name)
    if printer is None:
        sys.stdout.write(f"{result.in_words()}\n")
    else:
        printer(result, api)


def print_table(title: str, rows: list[tuple[str, str]], places: Iterable[tuple[str, str]] = ()) -> None:
    """Print rows of two cells as a table on stdout, without markup.

    ``places``: paths and URLs, each printed on its own line below the table for easy copying.
    """
    grid = Table(title=title, show_header=False)
    grid.add_column()
    grid.add_column(justify="right", overflow="fold")
    for what, value in rows:
        grid.add_row(Text(shown_text(what)), Text(shown_text(value)))
    Console(file=sys.stdout).print(grid)
    sys.stdout.writelines(f"{what}: {shown_text(place)}\n" for what, place in places)


def _print_quickstart(result: PrepareResult, api: Api) -> None:
    places = [
        ("Metadata", str(result.metadata.path.parent)),
        ("Raw shards", str(result.dataset.source_dir)),
        ("Dataset", str(result.dataset.dataset_dir)),
        ("Report", str(result.report.path)),
        ("Prefect UI", "`datacomp-energon ui` shows this run again" if api.own else api.ui),
    ]
    print_table("quickstart", summary_rows(result.audit, result.dataset), places)


def _print_report(summary: ReportSummary, api: Api) -> None:
    odd = [(f"  {kind}", f"{count:,}") for kind, count in summary.odd_pictures.items()]
    rows = [("Pictures checked", f"{summary.pictures_looked_at:,}"), *odd]
    print_table("report", rows, [("Report", str(summary.path))])


_TABLES: dict[str, Callable[[Any, Api], None]] = {"quickstart": _print_quickstart, "report-dataset": _print_report}
