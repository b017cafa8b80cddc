"""The funnel from attempted URLs to training samples, with every loss by reason."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.io.failure_reasons import by_kind
from tasks.report.places import Places, read_json
from tasks.report.plots import ShardStats
from tasks.report.text import clean_text


@dataclass(frozen=True)
class Step:
    """A line of the funnel: ``kind`` is ``kept`` or ``lost``, ``part`` its share of the attempts (0 to 1)."""

    what: str
    kind: str
    count: int
    part: float


def funnel(totals: Mapping[str, Any], counts: Mapping[str, Any], read_all: bool) -> list[Step]:
    """Build the funnel from the audit's ``totals`` (empty without an audit) and the conversion's ``counts``.

    ``read_all``: whether the conversion read every raw sample. If not, the unread samples get a line of their own.
    """
    whole = totals.get("attempts") or counts["input_samples"] or 1
    steps = []
    if totals:
        steps.append(("Attempted URLs", "kept", totals["attempts"]))
        steps += _losses(totals["failure_reasons"])
        steps.append(("Downloaded", "kept", totals["successes"]))
        if not read_all:
            steps.append(("not read: enough samples were found", "lost", totals["samples"] - counts["input_samples"]))
    steps.append(("Samples read", "kept", counts["input_samples"]))
    steps += _losses(counts["skip_reasons"])
    steps += [("Train samples", "kept", counts["train"]), ("Val samples", "kept", counts["val"])]
    return [Step(what, kind, count, min(count / whole, 1.0)) for what, kind, count in steps]


def _losses(reasons: Mapping[str, int]) -> Iterable[tuple[str, str, int]]:
    ranked = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    return [(clean_text(reason, 80), "lost", count) for reason, count in ranked]


def read_shard_stats(places: Places) -> list[ShardStats]:
    """Read the stats of every shard from the audit's receipts, in shard order; empty without an audit."""
    if places.audit_dir is None:
        return []
    receipts = sorted(path for path in places.audit_dir.glob("*.json") if path.stem.isdigit())
    return [_read_stats(path) for path in receipts]


def _read_stats(path: Path) -> ShardStats:
    counts = read_json(path).get("counts", {})
    stats = counts.get("stats", {})
    reasons = {reason: number for reason, number in stats.get("reasons", {}).items() if reason != "success"}
    return ShardStats(path.stem, stats.get("count", 0), stats.get("successes", 0), by_kind(reasons))
