"""The plan on disk: its samples by output tar, its rejects, and its head, which is written last."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from tasks.convert.models import Plan, PlannedTar, PrepareFolder
from tasks.convert.plan import SPLITS, Array, Decision, Placement
from tasks.errors import PlanError
from tasks.files import atomic_file, write_json
from tasks.raw_tar import SAMPLE_MEMBERS

_SAMPLE_COLUMNS = [
    "key",
    "uid",
    *[f"{name}_{part}" for name in SAMPLE_MEMBERS for part in ("offset", "size")],
    "digest",
]
_REJECT_COLUMNS = ["key", "uid", "cause"]


def write_plan(folder: PrepareFolder, plan: Plan, decision: Decision, placement: Placement) -> None:
    """Write the plan's files atomically; ``plan.json`` last, so that a plan that is there is whole."""
    names = np.array([counts.shard for counts in plan.shards], dtype=np.str_)
    _write_samples(folder.samples, names, plan, decision, placement)
    _write_rejects(folder.rejects, names, decision)
    write_json(folder.plan, plan.model_dump(mode="json"))


def read_plan(folder: PrepareFolder) -> Plan | None:
    """The plan of a dataset; None if there is none. Raises PlanError if it cannot be read."""
    try:
        return Plan.model_validate_json(folder.plan.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise PlanError(
            f"{folder.plan} is not a plan that this version can read ({error.error_count()} faults); "
            "use another output folder (dataset_name)"
        ) from None


def read_samples(folder: PrepareFolder, tar: PlannedTar) -> pa.Table:
    """The samples of one output tar, in order, with the raw tar that each comes from.

    Raises PlanError if they cannot be read.
    """
    try:
        return pq.ParquetFile(folder.samples, page_checksum_verification=True).read_row_group(tar.row_group)
    except (pa.ArrowException, OSError) as error:
        raise PlanError(
            f"{folder.samples} cannot be read: {error}; start the conversion again: it writes the plan anew"
        ) from None


def _write_samples(path: Path, names: Array, plan: Plan, decision: Decision, placement: Placement) -> None:
    samples = decision.table.select(_SAMPLE_COLUMNS)
    schema = pa.schema([("raw_tar", pa.string()), *samples.schema])
    with atomic_file(path) as file, pq.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        for rows in _rows_of_tars(plan, placement):
            shards = pa.array(names[decision.shard[rows]].tolist(), pa.string())
            writer.write_table(pa.table([shards, *samples.take(rows).columns], schema=schema), row_group_size=len(rows))


def _rows_of_tars(plan: Plan, placement: Placement) -> Iterator[Array]:
    for value, split in enumerate(SPLITS):
        rows = placement.row[placement.split == value]
        start = 0
        for tar in (tar for tar in plan.tars if tar.split == split):
            yield rows[start : start + tar.samples]
            start += tar.samples


def _write_rejects(path: Path, names: Array, decision: Decision) -> None:
    rows = np.flatnonzero(~decision.emitted)
    columns = {
        "raw_tar": pa.array(names[decision.shard[rows]].tolist(), pa.string()),
        "reason": pa.array(decision.reason[rows].tolist(), pa.string()),
        **{name: decision.table.column(name).take(rows) for name in _REJECT_COLUMNS},
    }
    with atomic_file(path) as file:
        pq.write_table(pa.table(columns), file)
