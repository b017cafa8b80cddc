"""The shards that a download must produce, and the checks that they are complete."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.contracts.settings import DownloadSettings

END_OF_TAR = bytes(1024)
"""A complete tar ends with two zero blocks; a truncated one does not."""


@dataclass(frozen=True)
class ExpectedShard:
    """A shard that the metadata requires: its name (zero-padded number) and the number of attempted URLs."""

    name: str
    attempts: int


@dataclass(frozen=True)
class ShardStats:
    """The counts of one img2dataset stats file; ``failures`` counts each reason (free text)."""

    count: int
    successes: int
    failed_to_download: int
    failed_to_resize: int
    failures: dict[str, int]


@dataclass(frozen=True)
class ShardState:
    """The state of a shard on disk: ``stats`` if it is done, else ``reason`` names what is missing or wrong."""

    shard: ExpectedShard
    stats: ShardStats | None
    reason: str = ""

    @property
    def done(self) -> bool:
        """Whether img2dataset finished this shard."""
        return self.stats is not None


class StatsError(ValueError):
    """An invalid stats file; the message says why."""


def expected_shards(rows: Mapping[str, int], settings: DownloadSettings) -> list[ExpectedShard]:
    """Return the shards that img2dataset makes of metadata files with these row counts (file name -> rows).

    img2dataset sorts the files by name, cuts each into pieces of number_sample_per_shard rows (the last may be
    shorter), and numbers the pieces across all files.
    """
    size = settings.number_sample_per_shard
    pieces = [min(size, rows[name] - start) for name in sorted(rows) for start in range(0, rows[name], size)]
    return [ExpectedShard(f"{number:0{settings.oom_shard_count}d}", attempts) for number, attempts in enumerate(pieces)]


def shard_states(folder: Path, shards: Iterable[ExpectedShard]) -> list[ShardState]:
    """Return the state of every expected shard in ``folder``."""
    return [shard_state(folder, shard) for shard in shards]


def shard_state(folder: Path, shard: ExpectedShard) -> ShardState:
    """Return the state of one shard: done means stats with the expected attempts, and a complete tar."""
    has_stats = stats_path(folder, shard).exists()
    tar_problem = _tar_problem(folder / f"{shard.name}.tar")
    if not has_stats:
        return ShardState(shard, None, "not downloaded" if tar_problem == "no tar" else "tar without stats")
    try:
        stats = read_stats(stats_path(folder, shard))
    except StatsError as error:
        return ShardState(shard, None, str(error))
    if stats.count != shard.attempts:
        return ShardState(
            shard, None, f"stats count {stats.count} attempts, the metadata has {shard.attempts} rows for it"
        )
    if tar_problem:
        return ShardState(shard, None, f"stats, but {tar_problem}")
    return ShardState(shard, stats)


def read_stats(path: Path) -> ShardStats:
    """Read an img2dataset stats file. Raises StatsError if it is truncated, lacks counts, or does not add up."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StatsError("no stats") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StatsError(f"stats cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise StatsError("stats are not a JSON object")
    return _parse_stats(value)


def unexpected_files(folder: Path, shards: Iterable[ExpectedShard]) -> list[str]:
    """Return names in ``folder`` that belong to no expected shard, except img2dataset's ``_tmp`` folder.

    An unexpected JSON file breaks img2dataset's resume. ``.nfs…`` are deleted files that NFS keeps while they are open.
    """
    if not folder.exists():
        return []
    endings = (".tar", ".parquet", "_stats.json")
    known = {shard.name + ending for shard in shards for ending in endings} | {"_tmp"}
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if name not in known and not name.startswith(".nfs"))


def remove_invalid_stats(folder: Path, states: Iterable[ShardState]) -> list[str]:
    """Delete the stats of shards that are not done, since img2dataset treats any stats file as done.

    Return the names of those shards.
    """
    removed = []
    for path, name in ((stats_path(folder, state.shard), state.shard.name) for state in states if not state.done):
        if path.exists():
            path.unlink()
            removed.append(name)
    return removed


def first(names: list[str], count: int = 10) -> str:
    """Return the first ``count`` names, and the number of the others."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def stats_path(folder: Path, shard: ExpectedShard) -> Path:
    """Return the path to which img2dataset writes the stats of ``shard``."""
    return folder / f"{shard.name}_stats.json"


def _parse_stats(value: dict[str, Any]) -> ShardStats:
    keys = ("count", "successes", "failed_to_download", "failed_to_resize")
    for key in keys:
        if type(value.get(key)) is not int or value[key] < 0:
            raise StatsError(f"stats have no usable {key} ({value.get(key)!r})")
    count, successes, failed_to_download, failed_to_resize = (value[key] for key in keys)
    if successes + failed_to_download + failed_to_resize != count:
        raise StatsError(
            f"stats do not add up: {successes} successes + {failed_to_download} failed downloads + "
            f"{failed_to_resize} failed resizes are not {count} attempts"
        )
    failures = dict(_parse_failures(value.get("status_dict")))
    return ShardStats(count, successes, failed_to_download, failed_to_resize, failures)


def _parse_failures(status: Any) -> Iterator[tuple[str, int]]:
    if not isinstance(status, dict) or any(type(number) is not int for number in status.values()):
        raise StatsError("stats have no usable status_dict")
    return ((reason, number) for reason, number in status.items() if reason != "success")


def _tar_problem(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                return "the tar is empty"
            file.seek(max(0, size - len(END_OF_TAR)))
            return "" if file.read() == END_OF_TAR else "the tar has no end mark (it was cut)"
    except FileNotFoundError:
        return "no tar"
    except OSError as error:
        return f"the tar cannot be read ({error.strerror})"
