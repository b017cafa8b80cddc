"""Detection of a stalled download by its data; its processes may wait forever."""

import time
from dataclasses import dataclass, field

from tasks.images.progress import Progress

IDLE_SECONDS = 60.0
"""Shorter timeout when no process has a shard open any more: the pool waits for a killed worker."""


class StalledError(Exception):
    """No new data within the timeout: the downloader must be restarted."""


@dataclass
class Watchdog:
    """A timer that expires after ``stall_timeout`` seconds without new data; earlier if no worker is active."""

    stall_timeout: float
    seen: tuple[int, int, int] | None = None
    since: float = field(default_factory=time.monotonic)
    worked: bool = False

    def check(self, progress: Progress) -> None:
        """Raise StalledError if no data arrived within the timeout."""
        now = time.monotonic()
        self.worked = self.worked or progress.workers > 0
        if progress.signature != self.seen or progress.complete_since is not None:
            self.seen, self.since = progress.signature, now
        elif now - self.since >= self._timeout(progress):
            raise StalledError(
                f"no new shard and no new byte for {now - self.since:.0f} s, {progress.workers} workers at a shard"
            )

    def _timeout(self, progress: Progress) -> float:
        idle = self.worked and not progress.workers
        return min(IDLE_SECONDS, self.stall_timeout) if idle else self.stall_timeout
