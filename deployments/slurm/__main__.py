"""``python -m deployments.slurm render|pool``: look at a batch script, or create the work pool from a profile."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, create_model

from deployments.profiles import ClusterProfile, load_profile
from deployments.slurm.configuration import job_of
from deployments.slurm.script import render
from deployments.slurm.variables import JobVariables
from flows.command_line import BAD_ARGUMENTS, DONE, FAILED, CommandLine, read_arguments, say
from tasks.errors import PipelineError, SettingsError


class _Options(CommandLine):
    cluster: str = Field("slurm", description="Cluster profile: the name of a shipped one, or a YAML file.")


class _Pool(_Options):
    name: str = Field("slurm", description="Name of the work pool.")


def _render_model() -> type[_Options]:
    fields: dict[str, Any] = {name: (field.annotation, field) for name, field in JobVariables.model_fields.items()}
    extra: dict[str, Any] = {
        "name": (str, Field("flow-run", description="Name of the flow run.")),
        "command": (str, Field("prefect flow-run execute", description="What the job executes.")),
    }
    return create_model("Render", __base__=_Options, **fields, **extra)


def _render(arguments: list[str]) -> None:
    """Print the batch script of a run with the profile's variables and the given ones; nothing is submitted."""
    options = read_arguments(_render_model(), arguments, "render")
    given = {name: getattr(options, name) for name in options.model_fields_set if name in JobVariables.model_fields}
    variables = load_profile(options.cluster).slurm.filled_with(given)
    values = options.model_dump()
    folder = Path(variables.log_dir).expanduser() / "FLOW-RUN-ID" / "1"
    sys.stdout.write(render(variables, job_of(values["name"], folder, values["command"], variables)))


def _pool(arguments: list[str]) -> None:
    """Create the work pool, or renew its job variables, with the profile's as defaults."""
    from deployments.patience import print_line
    from deployments.slurm.pool import create_pool

    options = read_arguments(_Pool, arguments, "pool")
    profile: ClusterProfile = load_profile(options.cluster)
    print_line(create_pool(str(options.model_dump()["name"]), profile.slurm, print_line))


_COMMANDS: dict[str, Callable[[list[str]], None]] = {"render": _render, "pool": _pool}


def main(arguments: list[str]) -> int:
    """Run one command; gives the exit status."""
    if not arguments or arguments[0] not in _COMMANDS:
        usage = "".join(f"  {name:8}{command.__doc__}\n" for name, command in _COMMANDS.items())
        sys.stderr.write(f"usage: python -m deployments.slurm COMMAND [--help]\n{usage}")
        return BAD_ARGUMENTS
    try:
        _COMMANDS[arguments[0]](arguments[1:])
    except ValidationError as error:
        for fault in error.errors():
            where = ".".join(str(part) for part in fault["loc"]) or "job variables"
            say(f"{where}: {fault['msg'].removeprefix('Value error, ')}")
        return BAD_ARGUMENTS
    except SettingsError as error:
        say(str(error))
        return BAD_ARGUMENTS
    except PipelineError as error:
        say(str(error))
        return FAILED
    return DONE


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
