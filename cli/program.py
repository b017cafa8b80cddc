"""Run a flow as a program: its parameters become the command line, its result the last line on stdout."""

import inspect
import signal
import sys
from collections.abc import Callable
from typing import Any, Protocol

from prefect import Flow
from prefect.exceptions import TerminationSignal
from pydantic import Field, create_model
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.command_line import BAD_ARGUMENTS, DONE, FAILED, INTERRUPTED, FlowCommandLine, read_arguments, say
from cli.server import Api, prefect_api
from cli.terminal import watched_run
from tasks.contracts.errors import PipelineError, SettingsError
from tasks.io.files import shown_text
from tasks.io.storage import in_words
from tasks.running.outcomes import Told


class Result(Told, Protocol):
    """What a flow answers: a pydantic model that can be told in a line."""

    def model_dump_json(self) -> str:
        """As a JSON object."""


def run_program(flow: Flow[..., Any], show: Callable[[Any, Api], None] | None = None) -> None:
    """Read the flow's parameters from the command line, run it, print its result, and exit.

    ``show`` prints the result for people; the last line on stdout is always the result as one JSON object.
    """
    given = read_arguments(command_line(flow), sys.argv[1:])
    # Prefect passes SIGTERM on once its run has ended; by default it would end this program without a word.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with prefect_api() as api:
            with watched_run(given.quiet):
                result = flow(**parameters_of(flow, given))
            if not given.only_json:
                (show or _say)(result, api)
    except SettingsError as error:
        say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None
    except PipelineError as error:
        say(str(error))
        raise SystemExit(FAILED) from None
    except OSError as error:
        told = in_words(error)
        if told is None:
            raise
        say(str(told))
        raise SystemExit(FAILED) from None
    except (KeyboardInterrupt, TerminationSignal):
        say("ended from outside; start it again to go on: finished work is kept")
        raise SystemExit(INTERRUPTED) from None
    sys.stdout.write(result.model_dump_json() + "\n")
    raise SystemExit(DONE)


def _say(result: Result, api: Api) -> None:
    sys.stdout.write(f"{result.in_words()}\n")


def table(title: str, rows: list[tuple[str, str]], places: list[tuple[str, str]] | None = None) -> None:
    """Print rows of two cells as a table on stdout; nothing in a cell is read as markup or obeyed.

    ``places``: paths and addresses, each on a line of its own below it, to be copied whole.
    """
    grid = Table(title=title, show_header=False)
    grid.add_column()
    grid.add_column(justify="right", overflow="fold")
    for what, value in rows:
        grid.add_row(Text(shown_text(what)), Text(shown_text(value)))
    Console(file=sys.stdout).print(grid)
    sys.stdout.writelines(f"{what}: {shown_text(place)}\n" for what, place in places or ())


def parameters_of(flow: Flow[..., Any], given: FlowCommandLine) -> dict[str, Any]:
    """The flow's parameters in a command line that was read."""
    return {name: getattr(given, name) for name in inspect.signature(flow.fn).parameters}


def read_parameters(flow: Flow[..., Any], arguments: list[str]) -> dict[str, Any]:
    """The flow's parameters from a command line; exits with 2 and a line a field if they cannot be used."""
    return parameters_of(flow, read_arguments(command_line(flow), arguments))


def command_line(flow: Flow[..., Any]) -> type[FlowCommandLine]:
    """A model of the flow's command line, made from the signature and the docstring that make the UI's form."""
    described = flow.parameters.properties
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(flow.fn).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=described[name].get("description")))
    model = create_model(flow.name, __base__=FlowCommandLine, **fields)
    model.__doc__ = (flow.description or "").partition("\n\nArgs:")[0]
    return model
