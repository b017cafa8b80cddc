"""Which shards a download must leave, and which of them are really done."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.contracts.settings import DownloadSettings

END_OF_TAR = bytes(1024)
"""A tar ends with two zero blocks; one that was cut does not."""


@dataclass(frozen=True)
class ExpectedShard:
    """A shard that the metadata calls for: its name (zero-padded number) and its attempted URLs."""

    name: str
    attempts: int


@dataclass(frozen=True)
class ShardStats:
    """The numbers of one img2dataset stats file; ``failures`` counts each reason (free text)."""

    count: int
    successes: int
    failed_to_download: int
    failed_to_resize: int
    failures: dict[str, int]


@dataclass(frozen=True)
class ShardState:
    """A shard as it lies there: ``stats`` if it is done, else ``reason`` says what is missing or wrong."""

    shard: ExpectedShard
    stats: ShardStats | None
    reason: str = ""

    @property
    def done(self) -> bool:
        """Whether img2dataset finished this shard."""
        return self.stats is not None


class StatsError(ValueError):
    """A stats file that cannot be believed; the message says why."""


def expected_shards(rows: Mapping[str, int], settings: DownloadSettings) -> list[ExpectedShard]:
    """The shards that img2dataset makes of metadata files with these row counts (file name -> rows).

    It takes the files by name, cuts each one into number_sample_per_shard rows (the last piece may be
    shorter), and numbers the pieces through.
    """
    size = settings.number_sample_per_shard
    pieces = [min(size, rows[name] - start) for name in sorted(rows) for start in range(0, rows[name], size)]
    return [ExpectedShard(f"{number:0{settings.oom_shard_count}d}", attempts) for number, attempts in enumerate(pieces)]


def shard_states(folder: Path, shards: Iterable[ExpectedShard]) -> list[ShardState]:
    """The state of every expected shard in ``folder``."""
    return [shard_state(folder, shard) for shard in shards]


def shard_state(folder: Path, shard: ExpectedShard) -> ShardState:
    """Look at one shard: done means stats that add up to the expected attempts, and a whole tar."""
    has_stats = stats_path(folder, shard).exists()
    tar_fault = _tar_fault(folder / f"{shard.name}.tar")
    if not has_stats:
        return ShardState(shard, None, "not downloaded" if tar_fault == "no tar" else "tar without stats")
    try:
        stats = read_stats(stats_path(folder, shard))
    except StatsError as error:
        return ShardState(shard, None, str(error))
    if stats.count != shard.attempts:
        return ShardState(
            shard, None, f"stats count {stats.count} attempts, the metadata has {shard.attempts} rows for it"
        )
    if tar_fault:
        return ShardState(shard, None, f"stats, but {tar_fault}")
    return ShardState(shard, stats)


def read_stats(path: Path) -> ShardStats:
    """Read an img2dataset stats file. Raises StatsError if it is cut, lacks counts, or does not add up."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise StatsError("no stats") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StatsError(f"stats cannot be read ({error})") from None
    if not isinstance(value, dict):
        raise StatsError("stats are not a JSON object")
    return _stats(value)


def foreign_files(folder: Path, shards: Iterable[ExpectedShard]) -> list[str]:
    """Names in ``folder`` that no expected shard has; img2dataset's ``_tmp`` folder is its own.

    One foreign JSON file breaks img2dataset's resume. ``.nfs…`` are files that NFS keeps while they are open.
    """
    if not folder.exists():
        return []
    endings = (".tar", ".parquet", "_stats.json")
    known = {shard.name + ending for shard in shards for ending in endings} | {"_tmp"}
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if name not in known and not name.startswith(".nfs"))


def remove_invalid_stats(folder: Path, states: Iterable[ShardState]) -> list[str]:
    """Delete the stats of shards that are not done: to img2dataset any stats file means done.

    Returns the names of those shards.
    """
    removed = []
    for path, name in ((stats_path(folder, state.shard), state.shard.name) for state in states if not state.done):
        if path.exists():
            path.unlink()
            removed.append(name)
    return removed


def first(names: list[str], count: int = 10) -> str:
    """The first ``count`` names, and how many more there are."""
    return ", ".join(names[:count]) + (f" and {len(names) - count} more" if len(names) > count else "")


def stats_path(folder: Path, shard: ExpectedShard) -> Path:
    """Where img2dataset puts the stats of ``shard``."""
    return folder / f"{shard.name}_stats.json"


def _stats(value: dict[str, Any]) -> ShardStats:
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
    failures = dict(_failures(value.get("status_dict")))
    return ShardStats(count, successes, failed_to_download, failed_to_resize, failures)


def _failures(status: Any) -> Iterator[tuple[str, int]]:
    if not isinstance(status, dict) or any(type(number) is not int for number in status.values()):
        raise StatsError("stats have no usable status_dict")
    return ((reason, number) for reason, number in status.items() if reason != "success")


def _tar_fault(path: Path) -> str:
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
