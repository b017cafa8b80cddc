"""Notice a download that does not go on: the watch is on its data, not on its processes, which may wait for ever."""

import time
from dataclasses import dataclass, field

from tasks.images.progress import Progress


class StalledError(Exception):
    """Nothing came for too long: the downloader is to be ended and started again."""


@dataclass
class Watchdog:
    """Barks when the progress has not changed for ``stall_timeout`` seconds: no new shard, no new byte."""

    stall_timeout: float
    seen: tuple[int, int, int] | None = None
    since: float = field(default_factory=time.monotonic)

    def check(self, progress: Progress) -> None:
        """Raise StalledError if nothing came for too long."""
        now = time.monotonic()
        if progress.signature != self.seen:
            self.seen, self.since = progress.signature, now
        elif now - self.since >= self.stall_timeout and progress.complete_since is None:
            raise StalledError(f"no new shard and no new byte for {now - self.since:.0f} s")
