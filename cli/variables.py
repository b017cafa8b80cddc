"""Environment variables of the tutorial that replace missing options of the GPU programs.

The only exception to the rule that a command line is the only source: forms, deployments and jobs ignore them.
"""

import os

from tasks.io.files import shown_text

_GROUPS = {"import-checkpoint": "checkpoint", "train-model": "training"}
_OF_GROUP = {
    "account": "SLURM_ACCOUNT",
    "partition": "SLURM_PARTITION",
    "container-image": "CONTAINER_IMAGE",
    "bridge-dir": "BRIDGE_ROOT",
}


def variables_of(flow: str) -> dict[str, str]:
    """Return the variables that a flow's program reads, by option; empty for every other program."""
    group = _GROUPS.get(flow)
    if group is None:
        return {}
    return {"--root": "DATACOMP_ROOT"} | {f"--{group}.{name}": variable for name, variable in _OF_GROUP.items()}


def options_not_given(arguments: list[str], variables: dict[str, str]) -> dict[str, str]:
    """Return the options that the environment provides, with their values; an empty variable counts as not set."""
    given = {argument.partition("=")[0] for argument in arguments}
    missing = {option: os.environ.get(name, "") for option, name in variables.items() if option not in given}
    return {option: value for option, value in missing.items() if value}


def describe_variables(variables: dict[str, str]) -> str:
    """Return the end of a help text: each option's variable and its current value."""
    if not variables:
        return ""
    lines = [f"  {option:27} {name:16} {_value(name)}" for option, name in variables.items()]
    return "\n".join(["environment variables, for options that are not given:", *lines]).replace("%", "%%")


def _value(name: str) -> str:
    value = os.environ.get(name, "")
    return f"now {shown_text(value)}" if value else "not set"
