"""Text and table rows that show the progress of a download."""

from tasks.images.completion import ExpectedShard, ShardStats
from tasks.images.failures import count_opt_outs
from tasks.images.progress import Progress
from tasks.images.totals import DownloadTotals
from tasks.io.failure_reasons import by_kind
from tasks.running.pace import duration

MAX_ROWS = 1_000
"""With more shards than this, the table shows only the latest started ones, up to this number."""


def in_words(totals: DownloadTotals) -> str:
    """Return attempts, successes and failures in a line."""
    share = totals.successes / totals.attempts if totals.attempts else 0.0
    return (
        f"{totals.attempts:,} attempts, {totals.successes:,} successes ({share:.1%}), "
        f"{totals.failed_to_download:,} failed downloads, {totals.failed_to_resize:,} failed resizes"
    )


def progress_line(progress: Progress) -> str:
    """Return the log line of a running download."""
    totals = progress.totals
    return (
        f"{len(progress.done)} of {len(progress.expected)} shards done: {in_words(totals)}; "
        f"{progress.rate:,.0f} attempts/s, {progress.bytes / 1e9:,.2f} GB, {progress.workers} workers, "
        f"{progress.restarts} restarts, {_time_left(progress)} left"
    )


def expected_attempts(progress: Progress) -> int:
    """Return the attempts of all expected shards."""
    return sum(shard.attempts for shard in progress.expected)


def percentage(progress: Progress) -> float:
    """Return the share of expected attempts in finished shards, in percent."""
    attempts = expected_attempts(progress)
    return 100 * progress.totals.attempts / attempts if attempts else 100.0


def failures_in_words(totals: DownloadTotals, count: int = 8) -> str:
    """Return the most frequent kinds of failures, and the number of opt-outs."""
    kinds = list(by_kind(totals.failures).items())[:count]
    listed = ", ".join(f"{kind} {number:,}" for kind, number in kinds) or "none"
    return f"Failures: {listed}. Opted out by X-Robots-Tag: {count_opt_outs(totals.failures):,}."


def shard_rows(progress: Progress) -> list[dict[str, str | int]]:
    """Return one row per shard: its state, counts and most frequent failure."""
    shards = progress.expected
    if len(shards) > MAX_ROWS:
        shards = [shard for shard in shards if shard.name in progress.sizes][-MAX_ROWS:]
    return [_row(shard, progress) for shard in shards]


def _row(shard: ExpectedShard, progress: Progress) -> dict[str, str | int]:
    stats, size = progress.done.get(shard.name), progress.sizes.get(shard.name, 0)
    state = "done" if stats else "begun" if shard.name in progress.sizes else "waiting"
    row: dict[str, str | int] = {
        "shard": shard.name,
        "state": state,
        "attempts": shard.attempts,
        "MB": round(size / 1e6),
    }
    return row | (_counts(stats) if stats else {"successes": "", "failures": "", "most frequent failure": ""})


def _counts(stats: ShardStats) -> dict[str, str | int]:
    kind, number = next(iter(by_kind(stats.failures).items()), ("", 0))
    return {
        "successes": f"{stats.successes:,} ({stats.successes / stats.count:.0%})",
        "failures": stats.failed_to_download + stats.failed_to_resize,
        "most frequent failure": f"{kind} ({number:,})" if kind else "",
    }


def _time_left(progress: Progress) -> str:
    seconds = progress.seconds_left
    return "unknown time" if seconds is None else duration(seconds)
