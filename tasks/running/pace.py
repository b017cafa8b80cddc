"""The pace of a long stage: how much is done, how fast, and how long the rest takes."""

import time


class Pace:
    """Progress of a stage: ``done`` of ``total`` units, of which ``done_before`` were done before it started.

    ``total`` is at least 1.
    """

    def __init__(self, total: int, unit: str, done: int = 0) -> None:
        self.total, self.unit, self.done_before, self.done = max(total, 1), unit, done, done
        self.started = time.monotonic()

    @property
    def percentage(self) -> float:
        """Share of the units that are done, in percent."""
        return min(100 * self.done / self.total, 100.0)

    @property
    def rate(self) -> float:
        """Units per second since the start."""
        return (self.done - self.done_before) / max(time.monotonic() - self.started, 1e-3)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the rest takes at this rate; None before the first unit and after the last."""
        left = self.total - self.done
        return left / self.rate if self.rate > 0 and left > 0 else None

    def in_words(self) -> str:
        """Return the count, the rate and the time left as one line."""
        digits = 0 if self.rate > 1 else 1
        words = f"{self.done:,} of {self.total:,} {self.unit}, {60 * self.rate:,.{digits}f} a minute"
        seconds = self.seconds_left
        return words if seconds is None else f"{words}, about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """Format a time in suitable units: ``40 s``, ``12 min``, ``3 h 5 min``."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
