"""How far a long stage is, how fast it goes, and how long it may still take."""

import time


class Pace:
    """``done`` of ``total`` things called ``unit``, of which ``done_before`` were done before it began.

    ``total`` is at least 1.
    """

    def __init__(self, total: int, unit: str, done: int = 0) -> None:
        self.total, self.unit, self.done_before, self.done = max(total, 1), unit, done, done
        self.started = time.monotonic()

    @property
    def percentage(self) -> float:
        """Share of the things that are done, in percent."""
        return min(100 * self.done / self.total, 100.0)

    @property
    def rate(self) -> float:
        """Things a second since the start."""
        return (self.done - self.done_before) / max(time.monotonic() - self.started, 1e-3)

    @property
    def seconds_left(self) -> float | None:
        """How long the rest takes at this rate; None before the first one, and after the last."""
        left = self.total - self.done
        return left / self.rate if self.rate > 0 and left > 0 else None

    def in_words(self) -> str:
        """How many, how fast, and how long it may still take."""
        digits = 0 if self.rate > 1 else 1
        words = f"{self.done:,} of {self.total:,} {self.unit}, {60 * self.rate:,.{digits}f} a minute"
        seconds = self.seconds_left
        return words if seconds is None else f"{words}, about {duration(seconds)} left"


def duration(seconds: float) -> str:
    """A time in the units that fit it: ``40 s``, ``12 min``, ``3 h 5 min``."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
