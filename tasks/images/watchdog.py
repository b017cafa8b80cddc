"""Notice a download that does not go on: the watch is on its data, not on its processes, which may wait for ever."""

import time
from dataclasses import dataclass, field

from tasks.images.progress import Progress

IDLE_SECONDS = 60.0
"""Less patience when no process has a shard open any more: the pool waits for a worker that was killed."""


class StalledError(Exception):
    """Nothing came for too long: the downloader is to be ended and started again."""


@dataclass
class Watchdog:
    """Barks when there is no new shard and no new byte for ``stall_timeout`` seconds; earlier if nobody is at work."""

    stall_timeout: float
    seen: tuple[int, int, int] | None = None
    since: float = field(default_factory=time.monotonic)
    worked: bool = False

    def check(self, progress: Progress) -> None:
        """Raise StalledError if nothing came for too long."""
        now = time.monotonic()
        self.worked = self.worked or progress.workers > 0
        if progress.signature != self.seen or progress.complete_since is not None:
            self.seen, self.since = progress.signature, now
        elif now - self.since >= self._patience(progress):
            raise StalledError(
                f"no new shard and no new byte for {now - self.since:.0f} s, {progress.workers} workers at a shard"
            )

    def _patience(self, progress: Progress) -> float:
        idle = self.worked and not progress.workers
        return min(IDLE_SECONDS, self.stall_timeout) if idle else self.stall_timeout
