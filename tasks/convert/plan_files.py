"""The plan on disk: its samples by output tar, its rejects, and its head, which is written last."""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.contracts.errors import PlanError
from tasks.convert.models import TARS_A_FILE, Plan, PlannedTar, PrepareFolder
from tasks.convert.plan import SPLITS, Array, Decision
from tasks.convert.plan_rows import EMITTED, Scan
from tasks.convert.scan import SCHEMA
from tasks.io.files import atomic_file, write_json
from tasks.io.raw_tar import SAMPLE_MEMBERS

_SAMPLE_COLUMNS = [
    "key",
    "uid",
    *[f"{name}_{part}" for name in SAMPLE_MEMBERS for part in ("offset", "size")],
    "digest",
]
_REJECT_COLUMNS = ["key", "uid", "cause"]
_SAMPLES = pa.schema([("raw_tar", pa.string()), *map(SCHEMA.field, _SAMPLE_COLUMNS)])
_REJECTS = pa.schema([("raw_tar", pa.string()), ("reason", pa.string()), *map(SCHEMA.field, _REJECT_COLUMNS)])
_REJECTS_AT_A_TIME = 100_000

Head = TypeVar("Head", bound=BaseModel)

Opened = list[tuple[Scan, slice]]
"""The opened shards, each with its rows in the decision."""


def write_plan(folder: PrepareFolder, plan: Plan, decision: Decision, scans: Sequence[Scan]) -> None:
    """Write the plan's files atomically, shard by shard; ``plan.json`` is last: if it exists, the plan is complete."""
    opened = list(zip(scans[: decision.opened], decision.shards(), strict=True))
    _write_samples(folder, plan, decision, opened)
    _write_rejects(folder.rejects, decision, opened)
    write_json(folder.plan, plan.model_dump(mode="json"))


class PlannedTars(BaseModel):
    """The part of the plan's head that writing a tar needs: the entries of all raw tars would fill a worker's RAM."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    identity: str
    settings: dict[str, Any]
    tars: tuple[PlannedTar, ...]


def read_plan(folder: PrepareFolder) -> Plan | None:
    """Read the plan of a dataset; return None if it is missing. Raises PlanError if it cannot be read."""
    return _read(folder, Plan)


def _read(folder: PrepareFolder, model: type[Head]) -> Head | None:
    try:
        return model.model_validate_json(folder.plan.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise PlanError(
            f"{folder.plan} is not a plan that this version can read ({error.error_count()} faults); "
            "use another output folder (dataset_name)"
        ) from None


def plan_and_tar(folder: PrepareFolder, identity: str, filename: str) -> tuple[PlannedTars, PlannedTar] | None:
    """Return the plan and one of its tars, or None if there is no plan or a different one. Raises PlanError.

    A worker writes many tars of one plan: it reads the plan once, and again if the file has changed.
    """
    try:
        state = folder.plan.stat()
    except FileNotFoundError:
        return None
    plan, tars = _known_plan(folder, (state.st_ino, state.st_mtime_ns, state.st_size))
    return (plan, tars[filename]) if plan is not None and plan.identity == identity else None


@functools.lru_cache(maxsize=1)
def _known_plan(folder: PrepareFolder, state: tuple[int, int, int]) -> tuple[PlannedTars | None, dict[str, PlannedTar]]:
    plan = _read(folder, PlannedTars)
    return plan, {tar.filename: tar for tar in plan.tars} if plan else {}


def read_samples(folder: PrepareFolder, tar: PlannedTar) -> pa.Table:
    """Read the samples of one output tar, in order, with the raw tar of each.

    Raises PlanError if they cannot be read.
    """
    path, row_group = folder.samples_of(tar.row_group)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return file.read_row_group(row_group)
    except (pa.ArrowException, OSError) as error:
        raise PlanError(
            f"{path} cannot be read: {error}; start the conversion again: it writes the plan anew"
        ) from None


def reject_kinds(folder: PrepareFolder) -> list[dict[str, str | int]]:
    """Return a row for each reject reason and cause, most frequent first: number of samples and the first of them."""
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


def _write_samples(folder: PrepareFolder, plan: Plan, decision: Decision, opened: Opened) -> None:
    """Write the files of samples, at least one, and remove surplus files of an earlier plan."""
    options = {"use_dictionary": ["raw_tar"], "write_page_checksum": True}
    groups = _row_groups(plan, decision, opened)
    paths = [folder.samples_of(first)[0] for first in range(0, max(len(plan.tars), 1), TARS_A_FILE)]
    for path in paths:
        with atomic_file(path) as file, pq.ParquetWriter(file, _SAMPLES, **options) as writer:
            for group in itertools.islice(groups, TARS_A_FILE):
                writer.write_table(group, row_group_size=group.num_rows)
    for path in set(folder.samples.iterdir()).difference(paths):
        path.unlink()


def _row_groups(plan: Plan, decision: Decision, opened: Opened) -> Iterator[pa.Table]:
    """Yield the samples of each output tar, in the order of the plan."""
    for value, split in enumerate(SPLITS):
        sizes = [tar.samples for tar in plan.tars if tar.split == split]
        yield from _cut(_samples(decision, opened, value), sizes)


def _samples(decision: Decision, opened: Opened, split: int) -> Iterator[pa.Table]:
    """Yield the samples of a split, one table per shard."""
    for scan, shard in opened:
        rows = decision.rows_of(shard, split)
        if len(rows):
            table = scan.read(_SAMPLE_COLUMNS).take(rows)
            yield pa.table([_name(scan, rows), *table.columns], schema=_SAMPLES)


def _cut(tables: Iterator[pa.Table], sizes: Iterable[int]) -> Iterator[pa.Table]:
    """Yield the rows of all tables as tables of the given sizes."""
    left = _SAMPLES.empty_table()
    for size in sizes:
        while left.num_rows < size:
            left = pa.concat_tables([left, next(tables)])
        yield left.slice(0, size).combine_chunks()
        left = left.slice(size)


def _write_rejects(path: Path, decision: Decision, opened: Opened) -> None:
    waiting, rows = [_REJECTS.empty_table()], 0
    with atomic_file(path) as file, pq.ParquetWriter(file, _REJECTS) as writer:
        for table in _rejects(decision, opened):
            waiting.append(table)
            rows += table.num_rows
            if rows >= _REJECTS_AT_A_TIME:
                writer.write_table(pa.concat_tables(waiting))
                waiting, rows = [], 0
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _rejects(decision: Decision, opened: Opened) -> Iterator[pa.Table]:
    """Yield the rejects, one table per shard."""
    reasons = pa.array(decision.reasons, pa.string())
    for scan, shard in opened:
        codes = decision.code[shard]
        rows = np.flatnonzero(codes != EMITTED)
        if len(rows):
            columns = scan.read(_REJECT_COLUMNS).take(rows).columns
            yield pa.table([_name(scan, rows), reasons.take(codes[rows]), *columns], schema=_REJECTS)


def _name(scan: Scan, rows: Array) -> pa.Array:
    return pa.repeat(pa.scalar(scan.summary.shard, pa.string()), len(rows))
