"""The supervision of the downloader: stop it when it stalls, restart it until all shards are done."""

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tasks.contracts.errors import DownloadError
from tasks.contracts.exit_status import describe_exit
from tasks.images.command import MARK, DownloadJob, command_environ, downloader_command, mark
from tasks.images.completion import ExpectedShard, ShardState, first, remove_invalid_stats, shard_states
from tasks.images.process import end_leftovers, log_since, processes_at_work, run_once
from tasks.images.progress import Progress
from tasks.images.trouble import Trouble, check_failures, check_full_disk, check_space
from tasks.images.watchdog import StalledError, Watchdog
from tasks.io.receipts import note_timing

LOG = "img2dataset.log"
POLL_SECONDS = 5.0
SHUTDOWN_GRACE_SECONDS = 30.0
"""How long img2dataset may run after its last shard: its pool or its logger can hang at shutdown."""
PAUSE_SECONDS = 5.0
"""Pause before a restart, times the number of consecutive runs without a new shard."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Observer:
    """Callbacks for the progress, every few seconds, and for warnings that do not stop the download.

    An exception from ``on_progress`` stops the download. ``run`` is the flow run's name, if there is one.
    """

    on_progress: Callable[[Progress], None] = lambda _: None
    warn: Callable[[str], None] = logger.warning
    run: str | None = None


def fetch(job: DownloadJob, shards: list[ExpectedShard], observer: Observer) -> None:
    """Run the downloader until all of ``shards`` are done in ``job.shards``.

    Raises DownloadError if shards are left after ``stall_restarts`` runs in a row without a new one, if the disk is
    full or nearly full, or if too many attempts fail.
    """
    progress = Progress(job.shards, shards)
    watch = _Checks(job, progress, observer)
    runs_without_shard = 0
    while left := _unfinished_shards(job.shards, shards):
        _remove_leftovers(job.shards, left)
        if progress.restarts == 0:
            progress.begin()
        ending = _run(job, progress, watch)
        still_left = _unfinished_shards(job.shards, shards)
        runs_without_shard = runs_without_shard + 1 if len(still_left) == len(left) else 0
        if runs_without_shard > job.settings.stall_restarts:
            raise _unfinished_error(job, still_left, len(shards), ending)
        if still_left:
            reason = f"{ending}; {len(still_left)} of {len(shards)} shards are left."
            observer.warn(f"The downloader is started again: {reason}")
            progress.restarts += 1
            time.sleep(PAUSE_SECONDS * runs_without_shard)


@dataclass
class _Checks:
    """The checks that run while the downloader runs."""

    job: DownloadJob
    progress: Progress
    observer: Observer

    def __post_init__(self) -> None:
        self.warned: set[str] = set()
        self.restart_watchdog()

    def restart_watchdog(self) -> None:
        """Reset the stall timeout for a new run."""
        self.watchdog = Watchdog(self.job.settings.stall_timeout)

    def should_stop(self) -> bool:
        """Run all checks; return whether the downloader may be stopped. Raises StalledError, and as ``look`` does."""
        self.look()
        self.watchdog.check(self.progress)
        return self.progress.complete_for(SHUTDOWN_GRACE_SECONDS)

    def look(self) -> None:
        """Read the progress, check it, and call the observer. Raises DownloadError to stop the download."""
        new = self.progress.look()
        root = self.job.root
        self.progress.workers = len(processes_at_work(MARK, mark(root.shards), self.job.shards))
        self.stop_or_warn(check_space(self.job.shards, self.job.settings))
        for trouble in check_failures(self.progress.finished, self.job.settings) if new else []:
            self.stop_or_warn(trouble)
        self.observer.on_progress(self.progress)

    def stop_or_warn(self, trouble: Trouble | None) -> None:
        """Raise DownloadError if the trouble is to stop the download, else warn once per kind."""
        if trouble and trouble.stop and self.progress.complete_since is None:
            raise DownloadError(f"The download was stopped. {trouble.message}")
        if trouble and trouble.kind not in self.warned:
            self.warned.add(trouble.kind)
            self.observer.warn(trouble.message)


def _run(job: DownloadJob, progress: Progress, watch: _Checks) -> str:
    """Run the downloader once and kill its leftovers; return why it ended, in words."""
    command = downloader_command(job)
    watch.restart_watchdog()
    watch.stop_or_warn(check_space(job.shards, job.settings))
    log = job.root.download / LOG
    log_start = log.stat().st_size if log.exists() else 0
    poll = min(POLL_SECONDS, job.settings.stall_timeout / 4)
    started, code = time.monotonic(), None
    try:
        code = run_once(command, command_environ(job), log, watch.should_stop, poll)
        ending = "it was stopped" if code is None else f"it {describe_exit(code)}"
    except StalledError as error:
        ending = f"it was ended after {error}"
    finally:
        end_leftovers(MARK, mark(job.root.shards))
        shutil.rmtree(job.shards / "_tmp", ignore_errors=True)
        note_timing(job.root.download, "img2dataset", time.monotonic() - started, {"exit_code": code})
    watch.look()
    if _unfinished_shards(job.shards, progress.expected):
        check_full_disk(log_since(log, log_start), job.shards)
    return ending


def _unfinished_shards(folder: Path, shards: list[ExpectedShard]) -> list[ShardState]:
    return [state for state in shard_states(folder, shards) if not state.done]


def _remove_leftovers(folder: Path, left: list[ShardState]) -> None:
    """Remove temporary files of a killed run and the stats of shards that are not done."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "_tmp", ignore_errors=True)
    remove_invalid_stats(folder, left)


def _unfinished_error(job: DownloadJob, left: list[ShardState], count: int, ending: str) -> DownloadError:
    log = job.root.download / LOG
    shards = first([f"{state.shard.name} ({state.reason})" for state in left])
    lines = [line for line in log_since(log, 0).splitlines() if line.strip()][-15:]
    return DownloadError(
        f"{len(left)} of {count} shards are left, and {job.settings.stall_restarts + 1} runs in a row brought no new "
        f"one: {shards}. The last: {ending}. Starting again resumes. The end of {log}:\n" + "\n".join(lines)
    )
