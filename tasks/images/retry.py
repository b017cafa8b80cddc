"""The retry of shards whose failures were mostly transient: keeps the better result of each."""

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
from tasks.images.failures import is_mostly_transient
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
    """Download shards with mostly transient failures again; return how many were replaced by better ones.

    New shards are written to a separate folder. A shard that fails or has no more successes than the old one is
    discarded. Raises DownloadError as a download does.
    """
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    chosen = [state.shard for state in states if state.stats and is_mostly_transient(state.stats.failures)]
    if not chosen:
        return 0
    job = DownloadJob(root, source, settings, environment(), _scratch(root))
    prepare(job)
    _mark_others_done(job.shards, states, chosen)
    try:
        fetch(job, chosen, observer)
    except DownloadError as error:
        observer.warn(f"The retry ended early; what came is used. {error}")
    better = [shard.name for shard in chosen if _is_better(root, shard)]
    _swap(root, better)
    return len(better)


def finish_swap(root: DataRoot) -> None:
    """Finish the replacement of shards that a killed retry recorded, and delete the rest of that retry."""
    journal = _journal(root)
    if journal.exists():
        for name in json.loads(journal.read_bytes()):
            _replace(root, name)
        fsync_folder(root.shards)
        journal.unlink()
    shutil.rmtree(_scratch(root).parent, ignore_errors=True)


def _swap(root: DataRoot, names: list[str]) -> None:
    """Replace all three files of each shard. Once the journal is written, the next run finishes a killed swap."""
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


def _mark_others_done(folder: Path, states: list[ShardState], chosen: list[ExpectedShard]) -> None:
    """Write placeholder stats for every other shard, so that img2dataset skips it as done."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for state in states:
        if state.shard not in chosen and state.stats is not None:
            write_json(stats_path(folder, state.shard), {"count": 0})


def _scratch(root: DataRoot) -> Path:
    """Return the folder for new shards of a retry; the official script requires the name ``shards``."""
    return root.path / "raw" / "retry" / "shards"


def _journal(root: DataRoot) -> Path:
    return root.download / "swap.json"
