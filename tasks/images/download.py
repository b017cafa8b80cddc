"""Download the shards of a metadata slice: run img2dataset, believe only what it leaves on disk."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tasks.errors import DownloadError, TransientError
from tasks.files import write_json
from tasks.images.command import MARK, command_environ, img2dataset_arguments, mark, write_command
from tasks.images.completion import (
    ExpectedShard,
    ShardState,
    ShardStats,
    expected_shards,
    first,
    foreign_files,
    remove_invalid_stats,
    shard_state,
    shard_states,
    stats_path,
)
from tasks.images.environment import DownloaderEnvironment
from tasks.images.identity import DownloadInput, check_metadata_files, claim, identity
from tasks.images.locks import exclusive
from tasks.images.process import end_leftovers, last_lines, run_once
from tasks.images.totals import DownloadTotals, add_up
from tasks.layout import DataRoot
from tasks.receipts import Receipt, note_timing, read_receipt
from tasks.settings import DownloadSettings

LOG = "img2dataset.log"
POLL_SECONDS = 5.0
FAREWELL_SECONDS = 30.0
"""How long img2dataset may go on after its last shard: its pool or its logger can hang at the end."""


class DownloadSummary(BaseModel):
    """A finished download; ``new_shards`` is 0 if there was nothing left to do.

    Failures are counted by kind; the receipt has them in the downloader's words.
    """

    model_config = ConfigDict(frozen=True)

    new_shards: int
    totals: DownloadTotals


class UnfinishedDownloadError(DownloadError, TransientError):
    """Some shards are left, but this run finished others: starting it again goes on from there."""


@dataclass
class Progress:
    """The shards that are done so far. ``look`` reads the stats that came since the last look."""

    folder: Path
    expected: list[ExpectedShard]
    done: dict[str, ShardStats] = field(default_factory=dict)
    complete_since: float | None = None

    @property
    def totals(self) -> DownloadTotals:
        """Sums over the shards that are done."""
        return add_up(self.done.values())

    def look(self) -> bool:
        """Whether shards were finished since the last look."""
        names = {path.name for path in self.folder.glob("*_stats.json")}
        new = [s for s in self.expected if s.name not in self.done and stats_path(self.folder, s).name in names]
        stats = {shard.name: shard_state(self.folder, shard).stats for shard in new}
        finished = {name: numbers for name, numbers in stats.items() if numbers}
        self.done.update(finished)
        if self.complete_since is None and len(self.done) == len(self.expected):
            self.complete_since = time.monotonic()
        return bool(finished)

    def complete_for(self, seconds: float) -> bool:
        """Whether every shard has been done for this long."""
        return self.complete_since is not None and time.monotonic() - self.complete_since >= seconds


def shards_left(root: DataRoot, source: DownloadInput, settings: DownloadSettings) -> list[ShardState]:
    """The shards that a download would still have to make, each with what it lacks."""
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    return [state for state in states if not state.done]


def download_shards(
    root: DataRoot,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: Callable[[], DownloaderEnvironment],
    on_progress: Callable[[Progress], None] | None = None,
) -> DownloadSummary:
    """Make every shard of ``source`` be in ``root.shards``, resuming what is there, and leave a receipt.

    ``environment`` is asked for only if there is something to download. ``on_progress`` is called every few
    seconds while img2dataset runs; an exception from it ends the download.

    Raises DownloadError if another download is at work in ``root``, if ``root`` holds another download's shards
    or foreign files, or if shards are left at the end (UnfinishedDownloadError if starting again may help).
    """
    with _only_one(root):
        end_leftovers(MARK, mark(root.shards))
        work = identity(source, settings)
        claim(root, work)
        refuse_foreign_files(root.shards, expected_shards(source.rows, settings))
        left = shards_left(root, source, settings)
        if left:
            _download(root, source, settings, environment(), left, on_progress)
        # What a killed run left behind its last shard.
        shutil.rmtree(root.shards / "_tmp", ignore_errors=True)
        return _finish(root, work, source, settings, new_shards=len(left))


def refuse_foreign_files(folder: Path, shards: list[ExpectedShard]) -> None:
    """Raise DownloadError if ``folder`` holds more than expected shards: that breaks img2dataset's resume."""
    foreign = foreign_files(folder, shards)
    if foreign:
        raise DownloadError(
            f"{folder} holds {len(foreign)} files that belong to no expected shard: {first(foreign)}. "
            "Move them elsewhere; only img2dataset writes into this folder."
        )


def _download(
    root: DataRoot,
    source: DownloadInput,
    settings: DownloadSettings,
    environment: DownloaderEnvironment,
    left: list[ShardState],
    on_progress: Callable[[Progress], None] | None,
) -> None:
    check_metadata_files(source)
    arguments = img2dataset_arguments(source.metadata_dir, root.shards, settings)
    command = write_command(environment.python, root.download / "img2dataset.json", arguments)
    _note_downloader(root, environment)
    _make_ready(root, left)
    progress = Progress(root.shards, expected_shards(source.rows, settings))
    progress.look()
    log = root.download / LOG
    log_start = log.stat().st_size if log.exists() else 0
    started = time.monotonic()

    def enough() -> bool:
        progress.look()
        if on_progress:
            on_progress(progress)
        return progress.complete_for(FAREWELL_SECONDS)

    code = run_once(command, command_environ(root.shards), log, enough, POLL_SECONDS)
    enough()
    _remove_temporary(root)
    note_timing(root.download, "img2dataset", time.monotonic() - started, {"exit_code": code})
    still_left = shards_left(root, source, settings)
    if still_left:
        raise _unfinished(still_left, len(left), code, log, log_start)


def _make_ready(root: DataRoot, left: list[ShardState]) -> None:
    """Clear what no longer holds: the receipt, temporary files of a killed run, stats that prove nothing."""
    (root.download / "receipt.json").unlink(missing_ok=True)
    _remove_temporary(root)
    remove_invalid_stats(root.shards, left)
    root.shards.mkdir(parents=True, exist_ok=True)


def _remove_temporary(root: DataRoot) -> None:
    shutil.rmtree(root.shards / "_tmp", ignore_errors=True)


def _finish(
    root: DataRoot, work: Receipt, source: DownloadInput, settings: DownloadSettings, new_shards: int
) -> DownloadSummary:
    states = shard_states(root.shards, expected_shards(source.rows, settings))
    totals = add_up(state.stats for state in states if state.stats)
    downloaders = {"downloader_locks": _downloaders(root)}
    receipt = work.model_copy(update={"inputs": work.inputs | downloaders, "counts": totals.model_dump()})
    path = root.download / "receipt.json"
    if read_receipt(path) != receipt:
        receipt.write(path)
    return DownloadSummary(new_shards=new_shards, totals=totals.in_kinds())


def _unfinished(left: list[ShardState], before: int, code: int | None, log: Path, log_start: int) -> DownloadError:
    kind = UnfinishedDownloadError if len(left) < before else DownloadError
    shards = first([f"{state.shard.name} ({state.reason})" for state in left])
    return kind(
        f"img2dataset ended with exit code {code}, and {len(left)} of {before} shards are left: {shards}. "
        f"Starting again resumes. The end of {log}:\n{last_lines(log, log_start)}"
    )


def _downloaders(root: DataRoot) -> list[str]:
    """SHA-256 of the pins of every environment that wrote shards here."""
    path = root.download / "downloaders.json"
    return json.loads(path.read_bytes()) if path.exists() else []


def _note_downloader(root: DataRoot, environment: DownloaderEnvironment) -> None:
    known = _downloaders(root)
    if environment.lock_sha256 not in known:
        write_json(root.download / "downloaders.json", sorted([*known, environment.lock_sha256]))


@contextlib.contextmanager
def _only_one(root: DataRoot) -> Iterator[None]:
    """Keep a second download out of ``root``."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive(root.download / "lock", wait=False))
        except BlockingIOError:
            raise DownloadError(f"Another download is at work in {root.path}; wait for it or end it.") from None
        yield
