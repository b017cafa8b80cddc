"""Results of a prepared dataset as table rows: from attempts to train samples, with every loss by reason."""

import shlex
from collections.abc import Iterable

from flows.convert import ConvertResult
from tasks.audit.models import AuditTotals
from tasks.io.files import shown_text
from tasks.report.report import ReportSummary

Row = tuple[str, str]


def summary_rows(audit: AuditTotals, dataset: ConvertResult) -> list[Row]:
    """Return (label, value) rows in the order of the pipeline."""
    counts = dataset.counts
    return [
        ("Attempted URLs", f"{audit.attempts:,}"),
        *_losses(audit.failure_reasons),
        ("Successful downloads", f"{audit.successes:,} ({_share(audit.successes, audit.attempts)})"),
        ("Raw shards", f"{audit.shards:,} ({dataset.raw_shards_opened:,} opened)"),
        ("Raw bytes", f"{audit.tar_bytes:,}"),
        ("Samples read", f"{counts.input_samples:,}"),
        *_losses(counts.skip_reasons),
        ("Train samples", f"{counts.train:,}"),
        ("Val samples", f"{counts.val:,}"),
        *((f"  kept, though odd: {kind}", f"{count:,}") for kind, count in dataset.oddities.items() if count),
        ("Output tars", f"{dataset.tars:,}"),
        ("Output bytes", f"{dataset.output_bytes:,}"),
    ]


def markdown_table(rows: Iterable[Row]) -> str:
    """Format the rows as a Markdown table; no cell is interpreted as markup."""
    lines = ["| | |", "|---|---:|", *(f"| {_plain(what)} | {_plain(value)} |" for what, value in rows)]
    return "\n".join(lines)


def markdown_places(dataset: ConvertResult, report: ReportSummary) -> str:
    """Describe where to look next, as Markdown. A server's page cannot link to local files: paths are for copying."""
    return f"""
Report: [{_plain(report.path.name)}]({report.path.as_uri()}), a page that opens from disk:

    {report.path}

All samples, to search and filter:

    datacomp-energon browse --dataset {shlex.quote(str(dataset.dataset_dir))}

Raw shards and dataset:

    {dataset.source_dir}
    {dataset.dataset_dir}

What Dask did is linked in the runs of the stages (artifacts `dask-dashboard`, `dask-report`).
"""


def _losses(reasons: dict[str, int]) -> list[Row]:
    return [(f"  lost: {shown_text(reason)}", f"{count:,}") for reason, count in reasons.items()]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _plain(text: str) -> str:
    """Escape every character that Markdown or HTML could interpret: failure reasons are free text from servers."""
    return "".join(f"&#{ord(c)};" if c in "|<>&`*_[]\\~#!" else c for c in text)
