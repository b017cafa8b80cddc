"""Check that a dataset folder may be written to: it is new, or holds a conversion of the same plan."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tasks.contracts.errors import PlanError
from tasks.convert.models import CONTRACT_VERSION, CONTRACT_VERSION_NOT_FINITE, PrepareFolder
from tasks.convert.plan_files import read_plan
from tasks.io.fingerprints import Fingerprint

_WAY_OUT = "use another dataset_name (or output_dir), or remove the folder if it is no longer wanted"


def check_output_folder(
    source_dir: Path, dataset_dir: Path, byte_settings: dict[str, Any], available: Iterator[Fingerprint]
) -> None:
    """Check, before anything is written, that this conversion may use the folder. Raises PlanError.

    ``available``: fingerprints of the raw tars in order; only those that must be compared are consumed.
    """
    if dataset_dir.resolve() == source_dir.resolve() or source_dir.resolve() in dataset_dir.resolve().parents:
        raise PlanError(f"output {dataset_dir} lies in the folder of the raw shards; choose a folder of its own")
    if dataset_dir.exists() and not dataset_dir.is_dir():
        raise PlanError(f"output {dataset_dir} is not a folder; {_WAY_OUT}")
    folder = PrepareFolder(dataset_dir=dataset_dir)
    if plan_identity(folder) is None and dataset_dir.is_dir() and set(dataset_dir.iterdir()) - {folder.path}:
        raise PlanError(f"output {dataset_dir} holds files that are not of a conversion by this tool; {_WAY_OUT}")
    difference = _difference(folder, byte_settings, available)
    if difference:
        raise PlanError(f"output {dataset_dir} belongs to another plan: {difference}; {_WAY_OUT}")


def plan_identity(folder: PrepareFolder) -> str | None:
    """Return the identity of the dataset's plan, from the manifest if plan.json is missing; None if neither has it.

    Raises PlanError if there is a plan that cannot be read.
    """
    plan = read_plan(folder)
    if plan is not None:
        return plan.identity
    try:
        return str(json.loads((folder.dataset_dir / "manifest.json").read_bytes())["plan"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _difference(folder: PrepareFolder, byte_settings: dict[str, Any], available: Iterator[Fingerprint]) -> str | None:
    """Return how the folder's plan differs from the plan that would be made now, or None if it does not."""
    plan = read_plan(folder)
    if plan is None:
        return None
    if plan.contract_version not in (CONTRACT_VERSION, CONTRACT_VERSION_NOT_FINITE):
        return f"it was made under contract version {plan.contract_version}, this is {CONTRACT_VERSION}"
    for name in [*byte_settings, *(plan.settings.keys() - byte_settings.keys())]:
        if plan.settings.get(name) != byte_settings.get(name):
            return f"{name} is {byte_settings.get(name)!r}, was {plan.settings.get(name)!r}"
    for was in plan.opened:
        now = next(available, None)
        if now is None:
            return f"the raw shard {was.name} is gone"
        if now != was:
            return f"the raw shard {now.name} is not the {was.name} that was converted"
    extra = next(available, None) if plan.all_opened else None
    return f"the raw shard {extra.name} is new" if extra else None
