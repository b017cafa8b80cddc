"""Totals of a download over all shards."""

from collections import Counter
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from tasks.images.completion import ShardStats
from tasks.io.failure_reasons import by_kind


class DownloadTotals(BaseModel):
    """Sums over shards; ``failures`` counts each reason as img2dataset words it, the most frequent first."""

    model_config = ConfigDict(frozen=True)

    shards: int = 0
    attempts: int = 0
    successes: int = 0
    failed_to_download: int = 0
    failed_to_resize: int = 0
    failures: dict[str, int] = {}

    def in_kinds(self) -> "DownloadTotals":
        """Return a copy with the failures counted by kind: the downloader's own reasons can be many."""
        return self.model_copy(update={"failures": by_kind(self.failures)})


def add_up(stats: Iterable[ShardStats]) -> DownloadTotals:
    """Add up the stats of shards; the result does not depend on their order."""
    sums: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for one in stats:
        sums.update(shards=1, attempts=one.count, successes=one.successes)
        sums.update(failed_to_download=one.failed_to_download, failed_to_resize=one.failed_to_resize)
        failures.update(one.failures)
    ranked = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return DownloadTotals(**sums, failures=dict(ranked))
