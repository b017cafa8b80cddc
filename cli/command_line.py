"""Base classes and parsing of all command lines; imports no Prefect, so that programs without a flow start quickly."""

import difflib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    CliToggleFlag,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from cli.variables import describe_variables, options_not_given
from tasks.contracts import errors
from tasks.contracts.errors import PipelineError
from tasks.contracts.plain_text import UNSHOWN
from tasks.io.files import shown_text

DONE, FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: the flow completed; a gate or stage failed; invalid arguments; Ctrl-C or SIGTERM."""


class CommandLine(BaseSettings):
    """Base of all command lines. The command line is the only source: no variable called ROOT gets in."""

    model_config = SettingsConfigDict(
        cli_kebab_case=True,
        cli_parse_none_str="null",
        cli_implicit_flags=False,
        cli_enforce_required=True,
        cli_exit_on_error=False,
        cli_avoid_json=True,
        extra="forbid",
        frozen=True,
    )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return one source, the arguments of the constructor; pydantic-settings puts the command line before it."""
        return (named["init_settings"],)


class ResultCommandLine(CommandLine):
    """Of programs that tell a result."""

    only_json: CliToggleFlag[bool] = Field(
        False, alias="json", description="Write nothing but the result, as one JSON object, to stdout."
    )


class FlowCommandLine(ResultCommandLine):
    """What the command lines of all flows have besides the flow's parameters."""

    quiet: CliToggleFlag[bool] = Field(
        False, description="Show warnings, errors and the result only: neither progress nor log lines."
    )


Model = TypeVar("Model", bound=CommandLine)


def read_arguments(
    model: type[Model], arguments: list[str], command: str = "", variables: dict[str, str] | None = None
) -> Model:
    """Parse the command line of ``command`` as ``model``; if invalid, print a line for each field and exit with 2.

    ``variables``: environment variables that can replace options, by option.
    """
    variables = variables or {}
    program = f"{_program()} {command}".rstrip()
    source = CliSettingsSource[Any](model, cli_prog_name=program)
    try:
        _refuse_unknown(arguments, re.findall(r"--([a-z][a-z0-9.-]*)", source.root_parser.format_help()))
        source.root_parser.epilog = describe_variables(variables)
        from_environment = options_not_given(arguments, variables)
        words = [f"{option}={value}" for option, value in from_environment.items()]
        return model(_cli_settings_source=source(args=[*words, *arguments]))
    except ValidationError as error:
        for fault in error.errors():
            option = "--" + ".".join(str(part) for part in fault["loc"]).replace("_", "-")
            given = "" if fault["type"] == UNSHOWN else f" (given: {_shortened(fault.get('input'))})"
            origin = f" (from {variables[option]})" if option in from_environment else ""
            say(f"{option}{origin}: {fault['msg'].removeprefix('Value error, ')}{given}")
    except SettingsError as error:
        say(f"{str(error).removeprefix('error parsing CLI: ')}; `{program} --help` tells what may be given")
    raise SystemExit(BAD_ARGUMENTS)


def _program() -> str:
    """Return how the user started this program."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is None or module.name == "cli.__main__":
        return "datacomp-energon"
    return f"python -m {module.name}"


def _refuse_unknown(arguments: list[str], options: list[str]) -> None:
    """Raise SettingsError for an unknown option, before a misspelled option is reported as a missing one."""
    given = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    for name in (option.removeprefix("--") for option in given if " " not in option):
        if name not in options:
            likely = difflib.get_close_matches(name, options, 1)
            raise SettingsError(f"--{name} is no option" + (f" (did you mean --{likely[0]}?)" if likely else ""))


def say(message: str) -> None:
    """Print an error message on stderr, without characters that a terminal would interpret."""
    lines = [shown_text(line) for line in message.splitlines()]
    sys.stderr.write("\n".join(["error: " + lines[0], *lines[1:]]) + "\n")


@contextmanager
def exit_with_message() -> Iterator[None]:
    """Exit with a message on stderr if the block raises a PipelineError: 2 for bad settings, 1 for all others."""
    try:
        yield
    except PipelineError as error:
        say(str(error))
        raise SystemExit(BAD_ARGUMENTS if isinstance(error, errors.SettingsError) else FAILED) from None


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
