"""Decide on every sample, in order and on the scan tables alone: who is emitted, and into which tar."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.convert.models import (
    CONTRACT_VERSION,
    Counts,
    Plan,
    PlannedTar,
    ScanSummary,
    ShardCounts,
    Split,
)
from tasks.convert.sample import uid_pattern
from tasks.errors import SettingsError, ShardError
from tasks.files import canonical_json
from tasks.fingerprints import Fingerprint
from tasks.settings import ConvertSettings

EMITTED = "emitted"
DUPLICATE = "duplicate_uid"
EXCLUDED = "excluded_uid"

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Scan:
    """A scanned shard as the plan reads it."""

    summary: ScanSummary
    fingerprint: Fingerprint
    table: pa.Table


@dataclass(frozen=True)
class Decision:
    """One entry a sample that was read, in selection order: its reason (``emitted`` or a reject reason)."""

    table: pa.Table
    shard: Array
    reason: Array
    opened: int
    reached: bool
    """Whether ``maximum_samples`` was reached, so that no further shard is opened."""

    @property
    def emitted(self) -> Array:
        """Which samples are emitted."""
        return self.reason == EMITTED


def decide(scans: Sequence[Scan], maximum_samples: int | None, excluded: frozenset[str]) -> Decision:
    """Decide on the samples of ``scans``, which are the first shards in order.

    Raises ShardError if a damaged place of a tar is reached before ``maximum_samples``.
    """
    table = pa.concat_tables([scan.table for scan in scans])
    shard = np.repeat(np.arange(len(scans)), [scan.table.num_rows for scan in scans])
    reason = _reasons(table, excluded)
    total = np.cumsum(reason == EMITTED)
    end, reached = table.num_rows, False
    if maximum_samples is not None and np.count_nonzero(reason == EMITTED) >= maximum_samples:
        end, reached = int(np.searchsorted(total, maximum_samples)) + 1, True
    _refuse_trouble(scans, end, reached)
    opened = int(shard[end - 1]) + 1 if reached else len(scans)
    return Decision(table.slice(0, end), shard[:end], reason[:end], opened, reached)


def _reasons(table: pa.Table, excluded: frozenset[str]) -> Array:
    """Each sample's reason, as if there were no cut-off (a cut-off changes nothing before it)."""
    before, after = (_strings(table.column(name)) for name in ("before_uid", "after_uid"))
    listed = pc.is_in(table.column("uid"), value_set=pa.array(sorted(excluded), pa.string())).to_numpy()
    fresh = before == ""
    candidate = fresh & (after == "") & ~listed
    first = _first_of_uid(table.column("uid"), candidate)
    row = np.arange(table.num_rows)
    conditions = [~fresh, first < row, listed, after != ""]
    return np.select(conditions, [before, DUPLICATE, EXCLUDED, after], default=EMITTED)


def _first_of_uid(uid: pa.ChunkedArray, candidate: Array) -> Array:
    """For each row, the row of the first candidate with its uid; the number of rows if there is none."""
    codes = pc.dictionary_encode(pc.fill_null(uid, "")).combine_chunks()
    code = codes.indices.to_numpy()
    first = np.full(len(codes.dictionary), len(code))
    rows = np.flatnonzero(candidate)
    # Assigned from the last to the first, so that the first one stays.
    first[code[rows[::-1]]] = rows[::-1]
    return first[code]


def _strings(column: pa.ChunkedArray) -> Array:
    """The column as text objects, "" for null. NumPy's own text type would drop NUL bytes at the end."""
    codes = pc.dictionary_encode(pc.fill_null(column, "")).combine_chunks()
    return np.asarray(codes.dictionary.to_pylist(), dtype=object)[codes.indices.to_numpy()]


def _refuse_trouble(scans: Sequence[Scan], end: int, reached: bool) -> None:
    """A tar that cannot be read stops the conversion, unless enough samples stand before the damage."""
    start = 0
    for scan in scans:
        before = scan.summary.samples_before_trouble
        if before is not None and not (reached and end <= start + before):
            raise ShardError(f"{scan.summary.trouble}; download the shard again, or take it out of the folder")
        start += scan.table.num_rows


@dataclass(frozen=True)
class Placement:
    """Where the emitted samples go: row of the decision's table, split (0 train, 1 val), tar, place in the tar."""

    row: Array
    split: Array
    tar: Array


SPLITS: tuple[Split, Split] = ("train", "val")


def place(decision: Decision, settings: ConvertSettings) -> Placement:
    """Split and tar of every emitted sample, in selection order."""
    row = np.flatnonzero(decision.emitted)
    hashes = decision.table.column("split_hash").take(pa.array(row)).to_numpy()
    split = (hashes / np.float64(2**64) < settings.validation_fraction).astype(np.int8)
    tar = np.empty(len(row), dtype=np.int64)
    for value in (0, 1):
        mine = split == value
        tar[mine] = np.arange(np.count_nonzero(mine)) // settings.max_samples_per_tar
    return Placement(row, split, tar)


def make_plan(
    scans: Sequence[Scan], decision: Decision, placement: Placement, settings: dict[str, Any], available: int
) -> Plan:
    """The plan's head. ``settings``: from :func:`byte_settings`; ``available``: number of raw tars."""
    opened = tuple(scan.fingerprint for scan in scans[: decision.opened])
    return Plan(
        identity=_identity(settings, opened, decision, placement),
        contract_version=CONTRACT_VERSION,
        settings=settings,
        opened=opened,
        all_opened=decision.opened == available and not decision.reached,
        shards=_shard_counts(scans, decision),
        counts=_counts(decision, placement),
        tars=_tars(placement),
    )


def byte_settings(settings: ConvertSettings, excluded: frozenset[str]) -> dict[str, Any]:
    """The settings that change tar bytes; the exclusion list by its content.

    What drops odd samples is named only where it is on, so that plans from before there was such a setting stand.
    """
    names = {
        "prompt",
        "max_samples_per_tar",
        "validation_fraction",
        "maximum_samples",
        "source_dataset",
        "source_revision",
    }
    dropping = {"drop_chat_markers", "drop_extreme_aspect_ratios"}
    names |= {name for name in dropping if getattr(settings, name)}
    listed = hashlib.sha256("\n".join(sorted(excluded)).encode()).hexdigest() if excluded else None
    return settings.model_dump(mode="json", include=names) | {"excluded_uids_sha256": listed}


def read_excluded(path: Path | None) -> frozenset[str]:
    """The uids of an exclusion list: one a line, blank lines allowed. Raises SettingsError."""
    if path is None:
        return frozenset()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"exclude_uids: {path} cannot be read: {error}; name a text file of uids") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not uid_pattern.fullmatch(line.strip()):
            raise SettingsError(
                f"exclude_uids: {path}, line {number}: {line[:60]!r} is not a uid (32 lower-case hex digits)"
            )
    return frozenset(line.strip() for line in lines if line.strip())


def _identity(
    settings: dict[str, Any], opened: tuple[Fingerprint, ...], decision: Decision, placement: Placement
) -> str:
    reasons = pa.array(decision.reason, pa.string()).dictionary_encode()
    codes = reasons.indices.to_numpy()
    head = {
        "contract_version": CONTRACT_VERSION,
        "settings": settings,
        "opened": [fingerprint.model_dump() for fingerprint in opened],
        "reasons": reasons.dictionary.to_pylist(),
    }
    identity = hashlib.sha256(canonical_json(head))
    for array, kind in ((codes, "<i4"), (placement.row, "<i8"), (placement.split, "i1"), (placement.tar, "<i8")):
        identity.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return identity.hexdigest()


def _counts(decision: Decision, placement: Placement) -> Counts:
    skipped = Counter(decision.reason[~decision.emitted].tolist())
    val = int(np.count_nonzero(placement.split))
    return Counts(
        input_samples=len(decision.reason),
        train=len(placement.row) - val,
        val=val,
        skipped=skipped.total(),
        skip_reasons=dict(sorted(skipped.items())),
    )


def _shard_counts(scans: Sequence[Scan], decision: Decision) -> tuple[ShardCounts, ...]:
    inputs = np.bincount(decision.shard, minlength=decision.opened)
    outputs = np.bincount(decision.shard[decision.emitted], minlength=decision.opened)
    rejects = np.bincount(decision.shard[~decision.emitted], minlength=decision.opened)
    return tuple(
        ShardCounts(shard=scan.summary.shard, inputs=int(i), outputs=int(o), rejects=int(r))
        for scan, i, o, r in zip(scans[: decision.opened], inputs, outputs, rejects, strict=True)
    )


def _tars(placement: Placement) -> tuple[PlannedTar, ...]:
    tars: list[PlannedTar] = []
    for value, split in enumerate(SPLITS):
        for number, samples in enumerate(np.bincount(placement.tar[placement.split == value]).tolist()):
            filename = f"{split}-shard-{number:06d}.tar"
            tars.append(PlannedTar(filename=filename, split=split, samples=samples, row_group=len(tars)))
    return tuple(tars)
