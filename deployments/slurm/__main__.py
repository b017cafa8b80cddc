"""``python -m deployments.slurm render|pool``: look at a batch script, or create the work pool from a profile."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, create_model
from pydantic_settings import BaseSettings, CliSettingsSource, SettingsConfigDict, SettingsError

from deployments.profiles import ClusterProfile, load_profile
from deployments.slurm.configuration import job_of
from deployments.slurm.script import render
from deployments.slurm.variables import JobVariables
from tasks.errors import PipelineError
from tasks.errors import SettingsError as BadSettings

DONE, FAILED, BAD_ARGUMENTS = 0, 1, 2


class _Options(BaseSettings):
    model_config = SettingsConfigDict(cli_kebab_case=True, cli_avoid_json=True)

    cluster: str = Field("slurm", description="Cluster profile: the name of a shipped one, or a YAML file.")

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[Any, ...]:
        """The command line alone: no variable of the environment gets in."""
        return (sources["init_settings"],)


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
    options = _read(_render_model(), "deployments.slurm render", arguments)
    given = {name: getattr(options, name) for name in options.model_fields_set if name in JobVariables.model_fields}
    variables = load_profile(options.cluster).slurm.filled_with(given)
    values = options.model_dump()
    folder = Path(variables.log_dir).expanduser() / "FLOW-RUN-ID" / "1"
    sys.stdout.write(render(variables, job_of(values["name"], folder, values["command"], variables)))


def _pool(arguments: list[str]) -> None:
    """Create the work pool, or renew its job variables, with the profile's as defaults."""
    from deployments.slurm.pool import create_pool

    options = _read(_Pool, "deployments.slurm pool", arguments)
    profile: ClusterProfile = load_profile(options.cluster)
    sys.stdout.write(create_pool(str(options.model_dump()["name"]), profile.slurm) + "\n")


def _read(model: type[_Options], program: str, arguments: list[str]) -> _Options:
    source = CliSettingsSource[Any](model, cli_prog_name=f"python -m {program}", cli_parse_args=arguments)
    return model(_cli_settings_source=source)


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
            sys.stderr.write(f"{where}: {fault['msg'].removeprefix('Value error, ')}\n")
        return BAD_ARGUMENTS
    except (BadSettings, SettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_ARGUMENTS
    except PipelineError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    return DONE


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
