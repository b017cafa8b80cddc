"""``datacomp-energon pool`` and ``render``: create the Slurm work pool from a profile, or print a batch script."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, create_model

from cli.command_line import BAD_ARGUMENTS, CommandLine, exit_with_message, read_arguments, say
from deployments.slurm.attempt import COMMAND
from deployments.slurm.configuration import job_of
from deployments.slurm.script import render
from tasks.contracts.cluster_profile import load_profile
from tasks.contracts.job_variables import JobVariables


class _Options(CommandLine):
    cluster: str = Field("slurm", description="Cluster profile: the name of a shipped one, or a YAML file.")


class _Pool(_Options):
    name: str = Field("slurm", description="Name of the work pool.")


def _render_model() -> type[_Options]:
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in JobVariables.model_fields.items()}
    extra: dict[str, Any] = {
        "name": (str, Field("flow-run", description="Name of the flow run.")),
        "command": (str, Field(COMMAND, description="What the job executes.")),
    }
    return create_model("Render", __base__=_Options, **fields, **extra)


def render_script(arguments: list[str]) -> None:
    """Print the batch script of a run with the profile's and the given job variables; submit nothing."""
    options = read_arguments(_render_model(), arguments, "render")
    given = {name: getattr(options, name) for name in options.model_fields_set if name in JobVariables.model_fields}
    with _errors_as_sentences():
        variables = load_profile(options.cluster).slurm.filled_with(given)
        values = options.model_dump()
        folder = Path(variables.log_dir).expanduser() / "FLOW-RUN-ID" / "1"
        sys.stdout.write(render(variables, job_of(values["name"], folder, values["command"], variables)))


def create(arguments: list[str]) -> None:
    """Create the work pool with the profile's job variables as defaults, or update them."""
    from deployments.patience import print_line
    from deployments.slurm.pool import create_pool

    options = read_arguments(_Pool, arguments, "pool")
    with _errors_as_sentences():
        profile = load_profile(options.cluster)
        print_line(create_pool(str(options.model_dump()["name"]), profile.slurm, print_line))


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """Exit with a line for each error: 2 for bad arguments, 1 for a failure."""
    try:
        with exit_with_message():
            yield
    except ValidationError as error:
        for fault in error.errors():
            where = ".".join(str(part) for part in fault["loc"]) or "job variables"
            say(f"{where}: {fault['msg'].removeprefix('Value error, ')}")
        raise SystemExit(BAD_ARGUMENTS) from None
