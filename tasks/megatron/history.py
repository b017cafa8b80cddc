"""Log entries of all jobs of a training in one file: a training may need several jobs to reach its last step."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tasks.io.files import write_json
from tasks.megatron.logs import Iteration, TrainingLog, read_training_log
from tasks.megatron.settings import TrainingSettings

_TOLD = {"recipe", "mode", "hf_model", "hf_revision", "max_steps", "global_batch_size", "micro_batch_size"}


def keep_log(path: Path, training: TrainingSettings, logs: Iterable[Path]) -> TrainingLog:
    """Add a job's log entries to the file at ``path``; return the complete log."""
    log = read_history(path).followed_by(read_training_log(logs))
    write_json(path, {"name": training.name, "settings": training.model_dump(mode="json", include=_TOLD), **_json(log)})
    return log


def read_history(path: Path) -> TrainingLog:
    """Read the log kept so far; return an empty log if the file is missing or invalid."""
    try:
        kept = json.loads(path.read_bytes())
        rows = [{**row, "loss": math.nan if row["loss"] is None else row["loss"]} for row in kept["iterations"]]
        validation = tuple((step, math.nan if loss is None else loss) for step, loss in kept["validation"])
        return TrainingLog(tuple(Iteration(**row) for row in rows), validation, tuple(kept["checkpoints"]))
    except (OSError, ValueError, KeyError, TypeError):
        return TrainingLog((), (), ())


def _json(log: TrainingLog) -> dict[str, Any]:
    return {
        "iterations": [{**asdict(entry), "loss": _number(entry.loss)} for entry in log.iterations],
        "validation": [[step, _number(loss)] for step, loss in log.validation],
        "checkpoints": list(log.checkpoints),
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
