"""Run a flow as a program: its parameters become the command line, its result the last line on stdout."""

import inspect
import signal
import sys
from typing import Any

from prefect import Flow
from prefect.exceptions import TerminationSignal
from pydantic import Field, create_model

from cli.command_line import DONE, FAILED, INTERRUPTED, FlowCommandLine, exit_with_message, read_arguments, say
from cli.results import print_result
from cli.server import prefect_api
from cli.terminal import announce_ui, show_progress
from cli.variables import variables_of
from tasks.io.storage import in_words


def run_program(flow: Flow[..., Any], arguments: list[str] | None = None, command: str = "") -> None:
    """Read the flow's parameters from ``arguments`` (default: the process's own), run it, print its result, and exit.

    The last line on stdout is always the result as one JSON object. ``command``: the subcommand, for messages.
    """
    given = _read(flow, sys.argv[1:] if arguments is None else arguments, command)
    # Prefect raises SIGTERM again after its run has ended; the default handler would end this program silently.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with exit_with_message(), prefect_api() as api:
            announce_ui(api, given.quiet)
            with show_progress(given.quiet):
                result = flow(**parameters_of(flow, given))
            if not given.only_json:
                print_result(flow.name, result, api)
    except OSError as error:
        told = in_words(error)
        if told is None:
            raise
        say(str(told))
        raise SystemExit(FAILED) from None
    except (KeyboardInterrupt, TerminationSignal):
        say("interrupted; rerun the same command to resume: finished work is kept")
        raise SystemExit(INTERRUPTED) from None
    sys.stdout.write(result.model_dump_json() + "\n")
    raise SystemExit(DONE)


def parameters_of(flow: Flow[..., Any], given: FlowCommandLine) -> dict[str, Any]:
    """Return the flow's parameters from a parsed command line."""
    return {name: getattr(given, name) for name in inspect.signature(flow.fn).parameters}


def read_parameters(flow: Flow[..., Any], arguments: list[str]) -> dict[str, Any]:
    """Read the flow's parameters from a command line; if invalid, print a line for each field and exit with 2."""
    return parameters_of(flow, _read(flow, arguments))


def _read(flow: Flow[..., Any], arguments: list[str], command: str = "") -> FlowCommandLine:
    return read_arguments(command_line(flow), arguments, command, variables_of(flow.name))


def command_line(flow: Flow[..., Any]) -> type[FlowCommandLine]:
    """Build a model of the flow's command line from the signature and docstring that also define the UI's form."""
    described = flow.parameters.properties
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(flow.fn).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=described[name].get("description")))
    model = create_model(flow.name, __base__=FlowCommandLine, **fields)
    model.__doc__ = (flow.description or "").partition("\n\nArgs:")[0]
    return model
