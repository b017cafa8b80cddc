"""Run a flow as a program: its parameters become the command line, its result the last line on stdout."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from prefect import Flow
from prefect.exceptions import TerminationSignal
from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.server import Api, prefect_api
from tasks.errors import PipelineError
from tasks.errors import SettingsError as BadSettings

DONE, FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: the flow completed; a gate or stage failed; the arguments cannot be used; Ctrl-C or SIGTERM."""


def run_program(flow: Flow[..., Any], show: Callable[[Any, Api], None] | None = None) -> None:
    """Read the flow's parameters from the command line, run it, print its result, and exit.

    ``show`` prints the result for people; the last line on stdout is always the result as one JSON object.
    """
    parameters = read_parameters(flow, sys.argv[1:])
    try:
        with prefect_api() as api:
            result: BaseModel = flow(**parameters)
            if show:
                show(result, api)
    except BadSettings as error:
        _say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None
    except PipelineError as error:
        _say(str(error))
        raise SystemExit(FAILED) from None
    except (KeyboardInterrupt, TerminationSignal):
        _say("ended from outside; start it again to go on: finished work is kept")
        raise SystemExit(INTERRUPTED) from None
    sys.stdout.write(result.model_dump_json() + "\n")
    raise SystemExit(DONE)


def table(title: str, rows: list[tuple[str, str]]) -> None:
    """Print rows of two cells as a table on stdout; nothing in a cell is read as markup."""
    grid = Table(title=title, show_header=False)
    grid.add_column()
    grid.add_column(justify="right", overflow="fold")
    for what, value in rows:
        grid.add_row(Text(what), Text(value))
    Console(file=sys.stdout).print(grid)


def read_parameters(flow: Flow[..., Any], arguments: list[str]) -> dict[str, Any]:
    """The flow's parameters from a command line; exits with 2 and a line a field if they cannot be used."""
    model = command_line(flow)
    try:
        source = CliSettingsSource[Any](model, cli_parse_args=arguments)
        given = model(_cli_settings_source=source)
    except ValidationError as error:
        for fault in error.errors():
            option = "--" + ".".join(str(part) for part in fault["loc"]).replace("_", "-")
            _say(f"{option}: {fault['msg'].removeprefix('Value error, ')} (given: {_shortened(fault.get('input'))})")
        raise SystemExit(BAD_ARGUMENTS) from None
    except SettingsError as error:
        _say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None
    return {name: getattr(given, name) for name in model.model_fields}


class CommandLine(BaseSettings):
    """Base of all command lines. The command line is the only source: no variable called ROOT gets in."""

    model_config = SettingsConfigDict(
        cli_kebab_case=True,
        cli_parse_none_str="null",
        cli_implicit_flags=False,
        cli_enforce_required=True,
        cli_avoid_json=True,
        extra="forbid",
        frozen=True,
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given when the object is made, and the command line, which pydantic-settings puts first."""
        return (named["init_settings"],)


def command_line(flow: Flow[..., Any]) -> type[CommandLine]:
    """A model of the flow's command line, made from the signature and the docstring that make the UI's form."""
    described = flow.parameters.properties
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(flow.fn).parameters.items():
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (parameter.annotation, Field(default, description=described[name].get("description")))
    model = create_model(flow.name, __base__=CommandLine, **fields)
    model.__doc__ = (flow.description or "").partition("\n\nArgs:")[0]
    return model


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _say(message: str) -> None:
    sys.stderr.write(f"error: {message}\n")
