"""The decision on every sample, in order and from the scan tables alone: is it emitted, and into which tar."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.contracts.errors import SettingsError, ShardError
from tasks.contracts.settings import ConvertSettings
from tasks.convert.models import (
    CONTRACT_VERSION,
    CONTRACT_VERSION_NOT_FINITE,
    Counts,
    Plan,
    PlannedTar,
    ShardCounts,
    Split,
)
from tasks.convert.oddities import NOT_FINITE
from tasks.convert.plan_rows import EMITTED, PlanRows, Scan
from tasks.convert.sample import uid_pattern
from tasks.io.files import canonical_json
from tasks.io.fingerprints import Fingerprint

Array = npt.NDArray[Any]

SPLITS: tuple[Split, Split] = ("train", "val")


@dataclass(frozen=True)
class Decision:
    """The decision on every sample that is read, in selection order.

    ``code``: its reason, an index into ``reasons``; ``val``: whether it belongs to the val split; ``starts``: the first
    row of each opened shard, and the end. ``reached``: whether ``maximum_samples`` was reached, so that no further
    shard is opened. ``accepted_gaps``: by the name of the tar, as in Plan.
    """

    reasons: list[str]
    code: Array
    val: Array
    starts: Array
    reached: bool
    accepted_gaps: dict[str, str]

    @property
    def opened(self) -> int:
        """Number of opened shards."""
        return len(self.starts) - 1

    def shards(self) -> Iterator[slice]:
        """Return the rows of each opened shard."""
        return map(slice, self.starts[:-1].tolist(), self.starts[1:].tolist())

    def rows_of(self, shard: slice, split: int) -> Array:
        """Return the rows, relative to the shard, that go to a split (an index into SPLITS)."""
        return np.flatnonzero((self.code[shard] == EMITTED) & (self.val[shard] == bool(split)))

    @cached_property
    def tallies(self) -> list[Array]:
        """Number of samples with each code, for each opened shard."""
        return [np.bincount(self.code[shard], minlength=len(self.reasons)) for shard in self.shards()]

    @cached_property
    def emitted(self) -> tuple[int, int]:
        """Number of samples that go to each split."""
        counts = [[len(self.rows_of(shard, split)) for split in (0, 1)] for shard in self.shards()]
        return sum(train for train, _ in counts), sum(val for _, val in counts)


def decide(scans: Sequence[Scan], rows: PlanRows, maximum_samples: int | None) -> Decision:
    """Decide on the samples of ``scans``, which are the first shards in order.

    Raises ShardError if a damaged place in a tar, or the end of a tar that lacks samples, is reached before
    ``maximum_samples``.
    """
    rows.settle_copies()
    end = _cut_off(rows, maximum_samples)
    reached = end is not None
    starts = rows.starts
    if end is not None:
        opened = int(np.searchsorted(starts, end - 1, side="right"))
        starts = np.append(starts[:opened], end)
    gaps = _accepted_gaps(scans, end)
    return Decision(rows.reasons, rows.code[: starts[-1]], rows.val[: starts[-1]], starts, reached, gaps)


def _cut_off(rows: PlanRows, maximum_samples: int | None) -> int | None:
    """Return the row after the last one that is read, or None if there are not enough samples."""
    left = maximum_samples
    for start, end in zip(rows.starts[:-1].tolist(), rows.starts[1:].tolist(), strict=True):
        if left is None:
            break
        emitted = np.flatnonzero(rows.code[start:end] == EMITTED)
        if len(emitted) >= left:
            return start + int(emitted[left - 1]) + 1
        left -= len(emitted)
    return None


def _accepted_gaps(scans: Sequence[Scan], end: int | None) -> dict[str, str]:
    """Return the gaps in the tars up to row ``end`` (None: all rows). Raises ShardError for other faults."""
    gaps: dict[str, str] = {}
    start = 0
    for scan in scans:
        fault = scan.fault_before(None if end is None else end - start)
        if fault and not (scan.accept_gap and fault == scan.summary.gap):
            raise ShardError(f"{fault}; {_way_out(fault == scan.summary.gap)}")
        if fault:
            gaps[scan.summary.shard] = fault
        start += scan.summary.samples
    return gaps


def _way_out(is_gap: bool) -> str:
    download = "download the shard again, or take it out of the folder"
    return f"{download}, or set convert.accept_cut_tars to convert the samples that are there" if is_gap else download


def make_plan(
    scans: Sequence[Scan], decision: Decision, settings: dict[str, Any], available: int, oddities: dict[str, int]
) -> Plan:
    """Return the plan's head. ``settings``: from :func:`byte_settings`; ``available``: number of raw tars."""
    contract_version = CONTRACT_VERSION_NOT_FINITE if oddities[NOT_FINITE] else CONTRACT_VERSION
    opened = tuple(scan.fingerprint for scan in scans[: decision.opened])
    return Plan(
        identity=_identity(contract_version, settings, opened, decision),
        contract_version=contract_version,
        settings=settings,
        opened=opened,
        all_opened=decision.opened == available and not decision.reached,
        shards=_shard_counts(scans, decision),
        counts=_counts(decision),
        tars=_tars(decision, settings["max_samples_per_tar"]),
        oddities=oddities,
        accepted_gaps=decision.accepted_gaps,
    )


def byte_settings(settings: ConvertSettings, excluded: frozenset[str]) -> dict[str, Any]:
    """Return the settings that change tar bytes, with the SHA-256 of the exclusion list.

    Settings that drop odd samples are included only if they are on: plans that are older than these settings stay
    valid.
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
    """Read the uids of an exclusion list: one per line, blank lines allowed. Raises SettingsError."""
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
    contract_version: int, settings: dict[str, Any], opened: tuple[Fingerprint, ...], decision: Decision
) -> str:
    """Return the SHA-256 of settings, opened tars and four columns.

    The columns are the reason of each sample that is read, numbered in order of first appearance, and for each
    emitted sample its row, its split (0 train, 1 val) and the number of its tar.
    """
    appearance = _order_of_appearance(decision)
    head = {
        "contract_version": contract_version,
        "settings": settings,
        "opened": [fingerprint.model_dump() for fingerprint in opened],
        "reasons": [decision.reasons[code] for code in appearance],
    }
    identity = hashlib.sha256(canonical_json(head))
    place = np.zeros(len(decision.reasons), dtype="<i4")
    place[appearance] = np.arange(len(appearance))
    for shard in decision.shards():
        identity.update(place[decision.code[shard]].tobytes())
    for column, kind in (("row", "<i8"), ("split", "i1"), ("tar", "<i8")):
        for placed in _placements(decision, settings["max_samples_per_tar"]):
            identity.update(placed[column].astype(kind).tobytes())
    return identity.hexdigest()


def _order_of_appearance(decision: Decision) -> list[int]:
    """Return the codes that occur, in order of their first occurrence."""
    seen: dict[int, None] = {}
    for shard, tally in zip(decision.shards(), decision.tallies, strict=True):
        new = [code for code in np.flatnonzero(tally).tolist() if code not in seen]
        here = decision.code[shard]
        seen |= dict.fromkeys(sorted(new, key=lambda code: int(np.argmax(here == code))))
    return list(seen)


def _placements(decision: Decision, samples_per_tar: int) -> Iterator[dict[str, Array]]:
    """Yield, for each shard, the row, split and tar number of its emitted samples."""
    before = np.zeros(2, dtype=np.int64)
    for shard in decision.shards():
        rows = np.flatnonzero(decision.code[shard] == EMITTED)
        split = decision.val[shard][rows].astype(np.int8)
        tar = np.empty(len(rows), dtype=np.int64)
        for value in (0, 1):
            mine = split == value
            count = np.count_nonzero(mine)
            tar[mine] = (before[value] + np.arange(count)) // samples_per_tar
            before[value] += count
        yield {"row": shard.start + rows, "split": split, "tar": tar}


def _counts(decision: Decision) -> Counts:
    total = np.sum([np.zeros(len(decision.reasons), dtype=np.int64), *decision.tallies], axis=0)
    reasons = {decision.reasons[code]: int(total[code]) for code in np.flatnonzero(total) if code != EMITTED}
    train, val = decision.emitted
    return Counts(
        input_samples=len(decision.code),
        train=train,
        val=val,
        skipped=sum(reasons.values()),
        skip_reasons=dict(sorted(reasons.items())),
    )


def _shard_counts(scans: Sequence[Scan], decision: Decision) -> tuple[ShardCounts, ...]:
    return tuple(
        ShardCounts(
            shard=scan.summary.shard,
            inputs=int(tally.sum()),
            outputs=int(tally[EMITTED]),
            rejects=int(tally.sum() - tally[EMITTED]),
        )
        for scan, tally in zip(scans[: decision.opened], decision.tallies, strict=True)
    )


def _tars(decision: Decision, samples_per_tar: int) -> tuple[PlannedTar, ...]:
    tars: list[PlannedTar] = []
    for split, total in zip(SPLITS, decision.emitted, strict=True):
        for number, start in enumerate(range(0, total, samples_per_tar)):
            filename, samples = f"{split}-shard-{number:06d}.tar", min(samples_per_tar, total - start)
            tars.append(PlannedTar(filename=filename, split=split, samples=samples, row_group=len(tars)))
    return tuple(tars)
