"""``datacomp-energon automations --notify TYPE/NAME``: load the automations into a Prefect server."""

import sys

from pydantic import Field

from cli.command_line import BAD_ARGUMENTS, CommandLine, read_arguments, say
from cli.server import prefect_api
from deployments.automations.load import load
from tasks.contracts.errors import PipelineError


class LoadCommandLine(CommandLine):
    """Load the automations of runs that failed, stalled or completed; those of the same name are replaced."""

    notify: str | None = Field(
        None,
        pattern="^[a-z0-9-]+/[A-Za-z0-9-]+$",
        description="Notification block of the server that they send to, as TYPE/NAME; null: they only make an event.",
    )


def main(arguments: list[str]) -> None:
    """Load the automations and print their names. Exit with 2 if the server has no such notification block."""
    notify = read_arguments(LoadCommandLine, arguments, "automations").notify
    try:
        with prefect_api() as api:
            names = load(notify)
    except PipelineError as error:
        say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None
    place = "`datacomp-energon ui` shows them" if api.own else f"{api.ui}/automations"
    sys.stdout.write("".join(f"{name}\n" for name in names) + f"{place}\n")
