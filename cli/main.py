"""The console command ``datacomp-energon``: one subcommand for each flow, and programs without a flow.

Imports only the standard library, so that ``--help`` is fast; a subcommand imports what it needs.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass

BAD_ARGUMENTS = 2


@dataclass(frozen=True)
class Command:
    """A subcommand. ``target`` is ``module:function``: a flow, or a function of the arguments."""

    target: str
    summary: str
    is_flow: bool = False


FLOWS = {
    "quickstart": Command("flows.quickstart:quickstart", "run the whole pipeline on made-up pictures", True),
    "prepare": Command("flows.prepare:prepare_datacomp", "run the whole pipeline for a slice", True),
    "metadata": Command("flows.metadata:download_metadata", "fetch and verify a slice's metadata files", True),
    "images": Command("flows.images:download_images", "download the images with img2dataset", True),
    "audit": Command("flows.audit:audit_download", "check every raw shard and the totals", True),
    "convert": Command("flows.convert:convert_dataset", "convert raw shards to an Energon dataset", True),
    "check": Command("flows.check:check_dataset", "read every sample through Energon's loader", True),
    "report": Command("flows.report:report_dataset", "write the report of a dataset", True),
    "pin": Command("flows.pin:pin_slice", "write a slice file for a dataset revision", True),
    "checkpoint": Command("flows.checkpoint:import_checkpoint", "import a model checkpoint on GPUs", True),
    "training": Command("flows.training:train_model", "train a model on GPUs", True),
    "pipeline": Command("flows.pipeline:prepare_and_train", "run everything up to a trained model", True),
}
PROGRAMS = {
    "status": Command("cli.status:main", "show how far a data root is"),
    "browse": Command("cli.browse:main", "look at samples in a browser"),
    "ui": Command("cli.ui:main", "start a Prefect server and a worker on this machine"),
    "deploy": Command("cli.deploy:main", "create a work pool and a deployment of every flow"),
    "pool": Command("cli.pool:create", "create or update the Slurm work pool"),
    "render": Command("cli.pool:render_script", "print the batch script of a Slurm job"),
    "automations": Command("cli.automations:main", "create or replace the notifications on a server"),
    "settings": Command("cli.settings_reference:main", "print the settings reference"),
}
COMMANDS = FLOWS | PROGRAMS


def main() -> None:
    """Run the subcommand that the process's arguments name. Exit with 2 if it is unknown."""
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if name in {"-h", "--help"}:
        sys.stdout.write(usage())
        raise SystemExit(0)
    command = COMMANDS.get(name)
    if command is None:
        sys.stderr.write((f"error: unknown command {name}\n" if name else "") + usage())
        raise SystemExit(BAD_ARGUMENTS)
    _run(command, name, arguments)


def usage() -> str:
    """Return the help text: every subcommand with its summary."""
    lines = ["usage: datacomp-energon COMMAND [options]; COMMAND --help lists the options\n"]
    for title, commands in (("Flows", FLOWS), ("Programs", PROGRAMS)):
        lines += [f"\n{title}:\n", *(f"  {name:12} {command.summary}\n" for name, command in commands.items())]
    return "".join(lines)


def name_replacement(command: str) -> None:
    """Exit with a message that names the command that replaced this program."""
    sys.stderr.write(f"error: this program is now `datacomp-energon {command}`\n")
    raise SystemExit(BAD_ARGUMENTS)


def _run(command: Command, name: str, arguments: list[str]) -> None:
    from tasks.contracts.certificates import exit_if_unreadable

    exit_if_unreadable()
    module, _, function = command.target.partition(":")
    target: Callable[..., None] = getattr(importlib.import_module(module), function)
    if not command.is_flow:
        target(arguments)
        return
    from cli.program import run_program

    run_program(target, arguments, name)  # type: ignore[arg-type]  # a flow, by its declaration
