"""Parser of Megatron logs (losses, validation, speed, checkpoints), and the last lines of any log."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Megatron's training_log: " iteration       10/    1000 | key: value | …", optionally after a time and a rank.
_ITERATION = re.compile(r"\biteration\s+(\d+)/\s*(\d+) \|(.*)")
_VALIDATION = re.compile(r"validation loss at iteration (\d+)\b.*?\|\s*lm loss value: (\S+)")
_CHECKPOINT = re.compile(r"successfully saved checkpoint from iteration\s+(\d+)\b")
# Megatron-Bridge's own line, which precedes it.
_UTILIZATION = re.compile(r"GPU utilization:\s*([\d.]+)\s*MODEL_TFLOP/s/GPU")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Iteration:
    """One logged step. ``seconds`` per step; ``tflops``: model TFLOP/s per GPU; None or NaN if not logged."""

    step: int
    of: int
    loss: float
    seconds: float | None
    tflops: float | None
    skipped: int
    nan: int


@dataclass(frozen=True)
class TrainingLog:
    """Log entries in the order of steps; for a step that a resumed job repeated, the last entry counts."""

    iterations: tuple[Iteration, ...]
    validation: tuple[tuple[int, float], ...]
    checkpoints: tuple[int, ...]

    def samples_per_second(self, global_batch_size: int) -> float | None:
        """Return samples per second over the logged steps except the first, which compiles; None without such steps."""
        times = [entry.seconds for entry in self.iterations[1:] if entry.seconds]
        return global_batch_size * len(times) / sum(times) if times else None

    def followed_by(self, later: "TrainingLog") -> "TrainingLog":
        """Return this log up to the first step of ``later``, followed by ``later``, which replaces repeated steps."""
        start = later.iterations[0].step if later.iterations else math.inf
        validation = {step: loss for step, loss in self.validation if step < start} | dict(later.validation)
        return TrainingLog(
            (*(entry for entry in self.iterations if entry.step < start), *later.iterations),
            tuple(sorted(validation.items())),
            tuple(sorted({step for step in self.checkpoints if step < start} | set(later.checkpoints))),
        )


def step_in(text: str) -> tuple[int, int] | None:
    """Return the step in a log line and the total number of steps, or None if the line contains none."""
    found = _ITERATION.search(text)
    return (int(found[1]), int(found[2])) if found else None


def read_training_log(paths: Iterable[Path]) -> TrainingLog:
    """Read the logs of a job, oldest first."""
    log = TrainingLog((), (), ())
    for path in paths:
        log = log.followed_by(_read(path))
    return log


def _read(path: Path) -> TrainingLog:
    iterations: dict[int, Iteration] = {}
    validation: dict[int, float] = {}
    checkpoints: set[int] = set()
    tflops: float | None = None
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if found := _UTILIZATION.search(line):
                tflops = _number(found[1])
            elif found := _ITERATION.search(line):
                entry = _iteration(int(found[1]), int(found[2]), found[3], tflops)
                iterations[entry.step], tflops = entry, None
            elif found := _VALIDATION.search(line):
                validation[int(found[1])] = _number(found[2])
            elif found := _CHECKPOINT.search(line):
                checkpoints.add(int(found[1]))
    return TrainingLog(
        tuple(iterations[step] for step in sorted(iterations)),
        tuple(sorted(validation.items())),
        tuple(sorted(checkpoints)),
    )


def logs_of(job_id: int, log: Path | None) -> list[Path]:
    """Return the job's own log, then the logs of its steps, which NeMo-Run writes beside it, oldest first."""
    if log is None:
        return []
    number = re.compile(rf"(?<!\d){job_id}(?!\d)")
    steps = [path for path in log.parent.glob("*.out") if number.search(path.name) and path != log]
    steps.sort(key=lambda path: (path.stat().st_mtime_ns, path.name))
    return [path for path in (log, *steps) if path.is_file()]


def tail(path: Path, lines: int) -> str:
    """Return the last lines of a log, without control characters; empty if the file cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 400 * lines))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    kept = [_CONTROL.sub("", line).rstrip() for line in text.replace("\r", "\n").splitlines()]
    return "\n".join([line for line in kept if line][-lines:])


def _iteration(step: int, of: int, rest: str, tflops: float | None) -> Iteration:
    fields = dict(part.strip().rsplit(": ", 1) for part in rest.split("|") if ": " in part)
    milliseconds = _number(fields.get("elapsed time per iteration (ms)", ""))
    throughput = _number(fields.get("throughput per GPU (TFLOP/s/GPU)", ""))
    return Iteration(
        step=step,
        of=of,
        loss=_number(fields.get("lm loss", "")),
        seconds=None if math.isnan(milliseconds) else milliseconds / 1000,
        tflops=tflops if math.isnan(throughput) else throughput,
        skipped=_count(fields.get("number of skipped iterations", "")),
        nan=_count(fields.get("number of nan iterations", "")),
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _count(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0
