"""The progress of a download, read from the shard folder."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from tasks.images.completion import ExpectedShard, ShardStats, shard_state, stats_path
from tasks.images.totals import DownloadTotals, add_up


@dataclass
class Progress:
    """The shards that are done so far. ``look`` reads what is new since its last call.

    ``finished`` are the stats of the shards finished since the start, the latest last; ``sizes`` the
    bytes of each shard's tar, unfinished ones included; ``temporary`` the bytes of img2dataset's work list;
    ``workers`` how many processes have a shard open.
    """

    folder: Path
    expected: list[ExpectedShard]
    done: dict[str, ShardStats] = field(default_factory=dict)
    finished: list[ShardStats] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    temporary: int = 0
    restarts: int = 0
    workers: int = 0
    started: float = field(default_factory=time.monotonic)
    complete_since: float | None = None

    @property
    def totals(self) -> DownloadTotals:
        """Sums over all finished shards."""
        return add_up(self.done.values())

    @property
    def bytes(self) -> int:
        """Bytes of all tars."""
        return sum(self.sizes.values())

    @property
    def rate(self) -> float:
        """Attempts per second since the start; attempts count when their shard is finished."""
        seconds = time.monotonic() - self.started
        return sum(stats.count for stats in self.finished) / seconds if seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Remaining seconds at this rate; None before the first shard is finished."""
        attempts = sum(shard.attempts for shard in self.expected) - sum(stats.count for stats in self.done.values())
        return attempts / self.rate if self.rate else None

    @property
    def signature(self) -> tuple[int, int, int]:
        """A value that changes whenever new data arrives."""
        return len(self.done), self.bytes, self.temporary

    def begin(self) -> None:
        """Count the shards of earlier runs as done; only later ones count for the rate."""
        self.look()
        self.finished.clear()
        self.started = time.monotonic()

    def look(self) -> bool:
        """Read the shard folder; return whether shards were finished since the last call."""
        names = {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()
        open_shards = [shard for shard in self.expected if shard.name not in self.done and f"{shard.name}.tar" in names]
        self.sizes.update({shard.name: _size(self.folder / f"{shard.name}.tar") for shard in open_shards})
        self.temporary = sum(map(_size, (self.folder / "_tmp").glob("*")))
        new = [shard for shard in open_shards if stats_path(self.folder, shard).name in names]
        stats = {shard.name: shard_state(self.folder, shard).stats for shard in new}
        finished = {name: numbers for name, numbers in stats.items() if numbers}
        self.done.update(finished)
        self.finished.extend(finished.values())
        if self.complete_since is None and len(self.done) == len(self.expected):
            self.complete_since = time.monotonic()
        return bool(finished)

    def complete_for(self, seconds: float) -> bool:
        """Return whether every shard has been done for at least ``seconds``."""
        return self.complete_since is not None and time.monotonic() - self.complete_since >= seconds


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
