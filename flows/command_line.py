"""What all command lines have in common; imports no Prefect, so that programs without a flow start at once."""

import sys
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

from tasks.plain_text import UNSHOWN

DONE, FAILED, BAD_ARGUMENTS, INTERRUPTED = 0, 1, 2, 130
"""Exit statuses: the flow completed; a gate or stage failed; the arguments cannot be used; Ctrl-C or SIGTERM."""


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


def read_arguments(model: type[Model], arguments: list[str]) -> Model:
    """A command line read as ``model``; exits with 2 and a line a field if it cannot be used."""
    try:
        return model(_cli_settings_source=CliSettingsSource[Any](model, cli_parse_args=arguments))
    except ValidationError as error:
        for fault in error.errors():
            option = "--" + ".".join(str(part) for part in fault["loc"]).replace("_", "-")
            given = "" if fault["type"] == UNSHOWN else f" (given: {_shortened(fault.get('input'))})"
            say(f"{option}: {fault['msg'].removeprefix('Value error, ')}{given}")
        raise SystemExit(BAD_ARGUMENTS) from None
    except SettingsError as error:
        say(str(error))
        raise SystemExit(BAD_ARGUMENTS) from None


def say(message: str) -> None:
    """Tell the user what is wrong, on stderr."""
    sys.stderr.write(f"error: {message}\n")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
