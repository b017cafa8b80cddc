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
    """The samples of one output tar, in order, with the raw tar that each comes from."""
    return pq.ParquetFile(folder.samples).read_row_group(tar.row_group)


def reject_kinds(folder: PrepareFolder) -> list[dict[str, str | int]]:
    """A row for each reason and cause of rejects: how many samples, and the first of them; most frequent first."""
    rejects = pq.read_table(folder.rejects).group_by(["reason", "cause"], use_threads=False)
    kinds = rejects.aggregate([([], "count_all"), ("raw_tar", "first"), ("key", "first")]).to_pylist()
    rows = [
        {
            "reason": kind["reason"],
            "cause": kind["cause"] or "",
            "samples": kind["count_all"],
            "for example": f"{kind['key_first'].decode('utf-8', 'backslashreplace')} in {kind['raw_tar_first']}",
        }
        for kind in kinds
    ]
    return sorted(rows, key=lambda row: -row["samples"])


def _write_samples(path: Path, names: Array, plan: Plan, decision: Decision, placement: Placement) -> None:
    samples = decision.table.select(_SAMPLE_COLUMNS)
    schema = pa.schema([("raw_tar", pa.string()), *samples.schema])
    with atomic_file(path) as file, pq.ParquetWriter(file, schema) as writer:
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
