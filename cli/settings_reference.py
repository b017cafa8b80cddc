"""The settings reference, docs/settings.md, generated from the models and flows: ``datacomp-energon settings``."""

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

import annotated_types
import yaml
from prefect import Flow
from pydantic.fields import FieldInfo

from tasks.contracts import cluster_profile as profiles
from tasks.contracts import settings
from tasks.megatron import settings as gpu_settings

_HEAD = """# Settings

Made by `make settings` from the models that make the UI's forms and the command lines; do not edit.

A setting of a group is `--group.setting-name` on a command line, for example `--convert.maximum-samples 5000`; `null`
means none. In `prepare-datacomp` what you leave out of `download`, `gate` and `convert` comes from the slice. A form in
the Prefect UI sends all fields of a group: those that you do not touch count as left out.
"""


_SHARED: dict[type[settings.Settings], str] = {profiles.NodesDask: "cluster profile: dask on Slurm nodes"}


def reference() -> str:
    """Return the whole reference as Markdown."""
    return "\n".join([_HEAD, *_models(), *_flows()])


def _models() -> Iterator[str]:
    for model in (*_settings_of(settings), *_settings_of(gpu_settings), *_settings_of(profiles)):
        yield f"## {_heading(model)}\n\n{inspect.cleandoc(model.__doc__ or '')}\n"
        yield "| setting | default | allowed | meaning |\n|---|---|---|---|"
        for name in model.__annotations__:
            field = model.model_fields[name]
            default = "required" if field.is_required() else _value(field.default)
            yield f"| `{name}` | {default} | {_allowed(field)} | {_cell(field.description or '')} |"
        yield from _inherited(model)
        yield ""


def _settings_of(module: ModuleType) -> list[type[settings.Settings]]:
    """Return the models that a module declares, in order of declaration."""
    models = [m for m in vars(module).values() if inspect.isclass(m) and issubclass(m, settings.Settings)]
    return [m for m in models if m.__module__ == module.__name__ and m is not settings.Settings]


def _heading(model: type[settings.Settings]) -> str:
    """Return the group's name; for a model of a cluster profile, its place in the file."""
    if model.__module__ != profiles.__name__:
        return model.__name__.removesuffix("Settings").lower()
    kind = model.model_fields.get("kind")
    return f"cluster profile: dask of kind {kind.default}" if kind else _SHARED.get(model, "cluster profile")


def _inherited(model: type[settings.Settings]) -> Iterator[str]:
    base = model.__bases__[0]
    if base is not settings.Settings:
        yield f"\nAnd all settings of `{_heading(base)}`."


def _flows() -> Iterator[str]:
    for entrypoint in _deployed():
        module, _, name = entrypoint.rpartition(".")
        flow: Flow[..., Any] = getattr(importlib.import_module(module), name)
        described = flow.parameters.properties
        yield f"## Flow `{flow.name}`\n\n`python -m {module}`: {(flow.description or '').partition(chr(10))[0]}\n"
        yield "| parameter | default | meaning |\n|---|---|---|"
        for parameter in inspect.signature(flow.fn).parameters.values():
            default = "required" if parameter.default is parameter.empty else _value(parameter.default)
            yield f"| `{parameter.name}` | {default} | {_cell(described[parameter.name].get('description', ''))} |"
        yield ""


def _deployed() -> list[str]:
    """Return the entry points of all flows, in the order of prefect.yaml."""
    path = Path(__file__).resolve().parent.parent / "prefect.yaml"
    deployments = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
    return list(dict.fromkeys(deployment["entrypoint"] for deployment in deployments))


def _value(value: Any) -> str:
    if isinstance(value, settings.Settings):
        return "see its group"
    if value == ():
        return "none"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"`{value}`"


def _allowed(field: FieldInfo) -> str:
    """Describe limits and choices in readable form."""
    limits = [_limit(item) for item in _constraints(field)]
    return ", ".join([*(f"`{choice}`" for choice in _choices(field.annotation)), *filter(None, limits)])


def _choices(annotation: Any) -> list[Any]:
    """Return the choices of every Literal in a type."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [choice for part in get_args(annotation) for choice in _choices(part)]


def _constraints(field: FieldInfo) -> Iterator[Any]:
    yield from field.metadata
    for part in getattr(field.annotation, "__args__", ()):
        for item in getattr(part, "__metadata__", ()):
            yield from getattr(item, "metadata", [item])


def _limit(item: Any) -> str:
    signs = {annotated_types.Ge: ("≥", "ge"), annotated_types.Gt: (">", "gt")}
    signs |= {annotated_types.Le: ("≤", "le"), annotated_types.Lt: ("<", "lt")}
    for kind, (sign, name) in signs.items():
        if isinstance(item, kind):
            return f"{sign} {getattr(item, name)}"
    pattern = getattr(item, "pattern", None)
    return f"`{pattern}`" if pattern else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> None:
    """Print the reference."""
    sys.stdout.write(reference())
