"""The plan's receipt: while it is valid, the plan of the same scans and settings is reused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.convert.models import CONTRACT_VERSION, PLAN_VERSION, Plan, PrepareFolder
from tasks.convert.plan_files import read_plan
from tasks.convert.plan_rows import Scan
from tasks.io.files import digest
from tasks.io.fingerprints import Fingerprint, Fingerprints
from tasks.io.receipts import Receipt, read_receipt


def finished_plan(folder: PrepareFolder, settings: dict[str, Any], scans: Sequence[Scan]) -> Plan | None:
    """Return the recorded plan if its receipt is valid and it was made from the first of ``scans``, else None.

    The receipt contains the number of opened tars. Scans after those do not change the plan: a plan that did not
    open every raw tar has reached ``maximum_samples``. Raises OSError.
    """
    receipt = read_receipt(folder.plan_receipt)
    if receipt is None or not isinstance(opened := receipt.inputs.get("opened"), int):
        return None
    if not receipt.outputs or not receipt.is_for(_work(folder, settings, scans[:opened])):
        return None
    intact = receipt.outputs_intact(folder.path, folder.fingerprints())
    return read_plan(folder) if intact else None


def leave_receipt(folder: PrepareFolder, plan: Plan, scans: Sequence[Scan]) -> None:
    """Write the plan's receipt; its files must exist."""
    files = [folder.plan, folder.rejects, *sorted(folder.samples.iterdir())]
    outputs = [_relative(folder, path) for path in files]
    work = _work(folder, plan.settings, scans[: len(plan.opened)])
    work.model_copy(update={"outputs": outputs}).write(folder.plan_receipt)


def _work(folder: PrepareFolder, settings: dict[str, Any], opened: Sequence[Scan]) -> Receipt:
    notes = folder.fingerprints()
    scans = [_scan(scan, notes) for scan in opened]
    return Receipt(
        stage="plan",
        stage_version=PLAN_VERSION,
        inputs={"contract_version": CONTRACT_VERSION, "opened": len(scans), "scans": digest(scans)},
        settings=settings,
    )


def _scan(scan: Scan, notes: Fingerprints) -> list[Any]:
    """Return the plan's inputs from a scan; a gap is included only if there is one, so that older plans stay valid."""
    gap = [scan.summary.gap] if scan.summary.gap else []
    return [scan.fingerprint.model_dump(), notes.of(scan.table_path).model_dump(), *gap]


def _relative(folder: PrepareFolder, path: Path) -> Fingerprint:
    """Return the file's fingerprint, named by its path relative to the folder."""
    name = str(path.relative_to(folder.path))
    return folder.fingerprints().of(path).model_copy(update={"name": name})
