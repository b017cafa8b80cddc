"""Fetch shards again whose failures were mostly transient, and keep the better result of each."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tasks.contracts.errors import DownloadError
from tasks.contracts.layout import DataRoot
from tasks.contracts.settings import DownloadSettings
from tasks.images.command import DownloadJob
from tasks.images.completion import ExpectedShard, ShardState, expected_shards, shard_state, shard_states, stats_path
from tasks.images.environment import DownloaderEnvironment
from tasks.images.failures import mostly_transient
from tasks.images.identity import DownloadInput
from tasks.images.supervise import Observer, fetch
from tasks.io.files import fsync_folder, write_json

ENDINGS = (".tar", ".parquet", "_stats.json")


def retry(
    root: DataRoot,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: Callable[[], DownloaderEnvironment],
    observer: Observer,
    prepare: Callable[[DownloadJob], None],
) -> int:
    """Fetch the shards again whose failures were mostly transient; how many got better, and were replaced.

    The new shards come into a folder of their own. A shard that does not come, or holds no more pictures than the
    one that is there, changes nothing. Raises DownloadError as a download does.
    """
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    chosen = [state.shard for state in states if state.stats and mostly_transient(state.stats.failures)]
    if not chosen:
        return 0
    job = DownloadJob(root, source, settings, environment(), _scratch(root))
    prepare(job)
    _spare_the_others(job.shards, states, chosen)
    try:
        fetch(job, chosen, observer)
    except DownloadError as error:
        observer.warn(f"The retry ended early; what came is used. {error}")
    better = [shard.name for shard in chosen if _is_better(root, shard)]
    _swap(root, better)
    return len(better)


def finish_swap(root: DataRoot) -> None:
    """Finish what a killed retry had begun: shards that were to be replaced are. Nothing else of it counts."""
    journal = _journal(root)
    if journal.exists():
        for name in json.loads(journal.read_bytes()):
            _replace(root, name)
        fsync_folder(root.shards)
        journal.unlink()
    shutil.rmtree(_scratch(root).parent, ignore_errors=True)


def _swap(root: DataRoot, names: list[str]) -> None:
    """Replace shards, all three files of each: once the journal is written, a killed swap is finished later."""
    for path in (_scratch(root) / f"{name}{ending}" for name in names for ending in ENDINGS):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    write_json(_journal(root), names)
    finish_swap(root)


def _replace(root: DataRoot, name: str) -> None:
    for ending in ENDINGS:
        new = _scratch(root) / f"{name}{ending}"
        if new.exists():
            new.replace(root.shards / new.name)


def _is_better(root: DataRoot, shard: ExpectedShard) -> bool:
    new, old = shard_state(_scratch(root), shard).stats, shard_state(root.shards, shard).stats
    return new is not None and (old is None or new.successes > old.successes)


def _spare_the_others(folder: Path, states: list[ShardState], chosen: list[ExpectedShard]) -> None:
    """Leave stats in the name of every other shard: img2dataset then takes those for done."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for state in states:
        if state.shard not in chosen and state.stats is not None:
            write_json(stats_path(folder, state.shard), {"count": 0})


def _scratch(root: DataRoot) -> Path:
    """Where new shards of a retry come: a folder named shards, since the official script knows no other name."""
    return root.path / "raw" / "retry" / "shards"


def _journal(root: DataRoot) -> Path:
    return root.download / "swap.json"
