"""The stats file that img2dataset writes beside a complete shard."""

import json
from typing import Any

from tasks.audit.models import Stats
from tasks.io.files import readable_text

_COUNTS = ("count", "successes", "failed_to_download", "failed_to_resize")


def parse_stats(data: bytes) -> tuple[Stats, list[str]]:
    """Parse the stats in ``data``; return them with a sentence for every problem.

    Format (img2dataset's logger): an object with the four counts and ``status_dict``, reason -> count.
    """
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError) as error:
        return Stats(), [f"the stats are not JSON: {error}"]
    if not isinstance(raw, dict):
        return Stats(), ["the stats are not a JSON object"]
    problems = [_describe_bad_count(name, raw.get(name)) for name in _COUNTS if not _is_count(raw.get(name))]
    reasons, bad_reasons = _parse_reasons(raw.get("status_dict", {}))
    if problems:
        return Stats(reasons=reasons), problems + bad_reasons
    stats = Stats(**{name: raw[name] for name in _COUNTS}, reasons=reasons)
    return stats, bad_reasons


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _describe_bad_count(name: str, value: Any) -> str:
    return f"the stats' {name} is {json.dumps(value)[:60]}, not a whole number"


def _parse_reasons(raw: Any) -> tuple[dict[str, int], list[str]]:
    if not isinstance(raw, dict) or not all(_is_count(count) for count in raw.values()):
        return {}, ["the stats' status_dict does not map reasons to whole numbers"]
    return {readable_text(reason): count for reason, count in raw.items()}, []


def contradictions(stats: Stats) -> list[str]:
    """Return a sentence for every contradiction between numbers of the stats."""
    found = []
    total = stats.successes + stats.failed_to_download + stats.failed_to_resize
    if total != stats.count:
        found.append(f"the stats count {stats.count} attempts, but successes and failures add up to {total}")
    if stats.reasons and sum(stats.reasons.values()) != stats.count:
        found.append(
            f"the stats count {stats.count} attempts, but their reasons add up to {sum(stats.reasons.values())}"
        )
    if stats.reasons and stats.reasons.get("success", 0) != stats.successes:
        found.append(
            f"the stats count {stats.successes} successes, but their reasons {stats.reasons.get('success', 0)}"
        )
    return found
