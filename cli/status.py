"""Status of a data root, from its receipts alone: ``datacomp-energon status --root …``; needs no server."""

import sys

from pydantic import Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.command_line import BAD_ARGUMENTS, DONE, FAILED, ResultCommandLine, read_arguments, say
from tasks.contracts.errors import SettingsError
from tasks.contracts.layout import DatasetName, GivenPath, absolute
from tasks.io.files import shown_text
from tasks.status.models import Stage, Status
from tasks.status.overview import read_status


class StatusCommandLine(ResultCommandLine):
    """Report how far each stage is, what is missing, what failed and why, and what a rerun does. Changes nothing."""

    root: GivenPath = Field(description="Data root.")
    dataset_name: DatasetName = Field("energon", description="Folder of the dataset in the data root.")


def print_status(status: Status, console: Console) -> None:
    """Print a table of the stages, the running programs and all reasons, without markup or escapes."""
    console.print(Text(shown_text(f"{status.dataset_name} in {status.root}"), "italic"), soft_wrap=True)
    table = Table()
    for name in ("stage", "state", "done", "what", "next run"):
        table.add_column(name, justify="right" if name == "done" else "left", overflow="fold")
    for stage in status.stages:
        cells = (stage.stage, stage.state, _done(stage), stage.summary, stage.rerun)
        table.add_row(*(Text(shown_text(cell)) for cell in cells))
    console.print(table)
    for line in _lines(status):
        console.print(Text(shown_text(line)), soft_wrap=True)


def _done(stage: Stage) -> str:
    if stage.done is None:
        return ""
    return f"{stage.done:,}" if stage.of is None else f"{stage.done:,} of {stage.of:,}"


def _lines(status: Status) -> list[str]:
    lines = [f"At work: {holder}" for holder in status.at_work]
    lines += [f"Died: {holder}" for holder in status.died]
    for stage in status.stages:
        lines += [f"{stage.stage}: {why}" for why in stage.why]
        if stage.missing and stage.state != "not begun":
            more = f" and {stage.missing_count - len(stage.missing):,} more"
            named = ", ".join(stage.missing) + (more if stage.missing_count > len(stage.missing) else "")
            lines.append(f"{stage.stage} is missing: {named}")
    return lines


def main(arguments: list[str]) -> None:
    """Print the status. Exit status: 0, 1 if a stage failed, 2 if ``--root`` is not a data root."""
    options = read_arguments(StatusCommandLine, arguments, "status")
    try:
        status = read_status(absolute(options.root), options.dataset_name)
    except SettingsError as error:
        say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None
    if not options.only_json:
        print_status(status, Console(file=sys.stdout))
    sys.stdout.write(status.model_dump_json() + "\n")
    raise SystemExit(FAILED if status.failed else DONE)
