"""Early checks of a running download: disk space, success rate, decoder, name resolution."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.errors import DownloadError
from tasks.contracts.settings import DownloadSettings
from tasks.images.completion import ShardStats
from tasks.images.failures import NAME_RESOLUTION, NETWORK_FAILURE, count_matching
from tasks.images.totals import DownloadTotals, add_up

NO_SPACE = ("No space left on device", "Disk quota exceeded", "[Errno 28]", "[Errno 122]")
RETRY_HINT = (
    "The shards that are done stay; those with many such failures can be fetched again with --retry-failed true."
)


@dataclass(frozen=True)
class Trouble:
    """A problem of a download, and whether it stops the download; warnings are given once per ``kind``."""

    kind: str
    message: str
    stop: bool


def check_space(folder: Path, settings: DownloadSettings) -> Trouble | None:
    """Return the trouble if free space is below a threshold. Raises OSError if it cannot be read."""
    limits = settings.trouble
    free = shutil.disk_usage(folder).free / 1e9
    message = (
        f"{folder} has {free:.1f} GB of free space (warning below {limits.free_gb_warn:g} GB, stop below "
        f"{limits.free_gb_stop:g} GB: download.trouble.free_gb_*). Make room, or use a data root on another disk."
    )
    if free < limits.free_gb_stop:
        return Trouble("disk", message, stop=True)
    return Trouble("disk", message, stop=False) if free < limits.free_gb_warn else None


def check_full_disk(log: str, folder: Path) -> None:
    """Raise DownloadError if the log shows failed writes: a reached quota is visible nowhere else."""
    if any(words in log for words in NO_SPACE):
        raise DownloadError(
            f"The disk of {folder} is full, or a quota is reached: the downloader said so. Make room, then start "
            "again: finished shards stay, the others are fetched anew."
        )


def check_failures(finished: list[ShardStats], settings: DownloadSettings) -> list[Trouble]:
    """Return the problems of the latest shards; empty while they have too few attempts to judge."""
    latest = _latest(finished, settings.trouble.attempts)
    return list(_find_troubles(add_up(latest), settings)) if latest else []


def _latest(finished: list[ShardStats], attempts: int) -> list[ShardStats]:
    found: list[ShardStats] = []
    for stats in reversed(finished):
        found.append(stats)
        if sum(one.count for one in found) >= attempts:
            return found
    return []


def _find_troubles(totals: DownloadTotals, settings: DownloadSettings) -> Iterator[Trouble]:
    limits, attempts = settings.trouble, totals.attempts
    unknown = count_matching(totals.failures, NAME_RESOLUTION) / attempts
    if unknown >= limits.name_resolution_warn:
        message = (
            f"Host names cannot be resolved in {unknown:.0%} of the last {attempts:,} attempts. Check the name "
            f"servers of this machine, or lower download.thread_count and processes_count. {RETRY_HINT}"
        )
        yield Trouble("name resolution", message, unknown >= limits.name_resolution_stop)
    undecoded = totals.failed_to_resize / attempts
    if undecoded >= limits.decoding_warn:
        message = (
            f"{undecoded:.0%} of the last {attempts:,} attempts brought something that could not be decoded or "
            f"resized, most often: {_most_frequent(totals)}. Check the downloader environment. {RETRY_HINT}"
        )
        yield Trouble("decoding", message, undecoded >= limits.decoding_stop)
    yield from _low_success(totals, settings)


def _low_success(totals: DownloadTotals, settings: DownloadSettings) -> Iterator[Trouble]:
    expected = settings.expected_success_rate
    success = totals.successes / totals.attempts
    if expected and success < expected * settings.trouble.success_warn:
        reason, number = next(iter(totals.in_kinds().failures.items()), ("no reason given", 0))
        message = (
            f"Only {success:.0%} of the last {totals.attempts:,} attempts succeeded; {expected:.0%} are expected "
            f"(download.expected_success_rate). Most frequent failure: {reason} ({number:,}). {RETRY_HINT}"
        )
        yield Trouble("success rate", message, success < expected * settings.trouble.success_stop)


def _most_frequent(totals: DownloadTotals) -> str:
    kinds = totals.in_kinds().failures
    return next((kind for kind in kinds if not NETWORK_FAILURE.search(kind)), "no reason given")
