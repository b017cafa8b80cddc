"""Run a flow as a program: its parameters become the command line, its result the last line on stdout."""

import inspect
import signal
import sys
from typing import Any

from prefect import Flow
from prefect.exceptions import TerminationSignal
from pydantic import Field, create_model

from cli.command_line import BAD_ARGUMENTS, DONE, FAILED, INTERRUPTED, FlowCommandLine, read_arguments, say
from cli.results import print_result
from cli.server import prefect_api
from cli.terminal import announce_ui, show_progress
from cli.variables import variables_of
from tasks.contracts.errors import PipelineError, SettingsError
from tasks.io.storage import in_words


def run_program(flow: Flow[..., Any], arguments: list[str] | None = None, command: str = "") -> None:
    """Read the flow's parameters from ``arguments`` (by default the process's own), run it, print its result, and exit.

    The last line on stdout is always the result as one JSON object. ``command``: the subcommand, for messages.
    """
    given = _read(flow, sys.argv[1:] if arguments is None else arguments, command)
    # Prefect passes SIGTERM on once its run has ended; by default it would end this program without a word.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with prefect_api() as api:
            announce_ui(api, given.quiet)
            with show_progress(given.quiet):
                result = flow(**parameters_of(flow, given))
            if not given.only_json:
                print_result(flow.name, result, api)
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


def parameters_of(flow: Flow[..., Any], given: FlowCommandLine) -> dict[str, Any]:
    """The flow's parameters in a command line that was read."""
    return {name: getattr(given, name) for name in inspect.signature(flow.fn).parameters}


def read_parameters(flow: Flow[..., Any], arguments: list[str]) -> dict[str, Any]:
    """The flow's parameters from a command line; exits with 2 and a line a field if they cannot be used."""
    return parameters_of(flow, _read(flow, arguments))


def _read(flow: Flow[..., Any], arguments: list[str], command: str = "") -> FlowCommandLine:
    return read_arguments(command_line(flow), arguments, command, variables_of(flow.name))


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
