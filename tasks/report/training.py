"""The report of a training: one page that opens from disk, made from what its jobs logged."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from tasks.contracts.errors import DatasetError
from tasks.io.files import write_bytes
from tasks.report.page import self_contained
from tasks.report.places import read_json
from tasks.report.plots import Curve, lines

_Rows = list[dict[str, Any]]


def write_training_report(log: Path, target: Path) -> Path:
    """Write the report of a training to ``target``, from the ``log.json`` that train-model keeps.

    Raises DatasetError if that is not there.
    """
    kept = read_json(log)
    if not kept:
        raise DatasetError(f"{log} is missing: no job of this training has logged anything yet")
    page = self_contained("training.html", ("common.css", "report.css"), "report.js", **_values(kept))
    write_bytes(target, page)
    return target


def _values(kept: dict[str, Any]) -> dict[str, Any]:
    rows, settings = kept["iterations"], kept["settings"]
    return {
        "name": kept["name"],
        "lead": f"{settings['mode']} of {settings['hf_model']}, recipe {settings['recipe']}.",
        "tiles": _tiles(kept),
        "warning": _warning(rows),
        "plots": [(title, Markup(plot)) for title, plot in _plots(rows, kept["validation"], _batch(kept))],
        "checkpoints": _checkpoints(kept),
        "settings": sorted(settings.items()),
    }


def _batch(kept: dict[str, Any]) -> int:
    return int(kept["settings"]["global_batch_size"])


def _tiles(kept: dict[str, Any]) -> list[tuple[str, str]]:
    rows, validation = kept["iterations"], [loss for _, loss in kept["validation"] if loss is not None]
    last = rows[-1] if rows else None
    seconds = [row["seconds"] for row in rows[1:] if row["seconds"]]
    speed = f"{_batch(kept) * len(seconds) / sum(seconds):,.1f}" if seconds else "-"
    return [
        (f"{last['step']:,} of {last['of']:,}" if last else "0", "steps"),
        (_decimal(last["loss"]) if last else "-", "last loss"),
        (_decimal(min(validation, default=None)), "lowest validation loss"),
        (speed, "samples a second, without the start"),
        (f"{kept['checkpoints'][-1]:,}" if kept["checkpoints"] else "none", "newest checkpoint"),
    ]


def _warning(rows: _Rows) -> str | None:
    skipped, nan = (sum(row[name] for row in rows) for name in ("skipped", "nan"))
    return f"Steps skipped: {skipped:,}; with a loss that is no number: {nan:,}." if skipped or nan else None


def _plots(rows: _Rows, validation: list[tuple[int, float | None]], batch: int) -> list[tuple[str, str]]:
    losses = [Curve("train", _known((row["step"], row["loss"]) for row in rows))]
    losses.append(Curve("validation", _known(validation), marked=True))
    speeds = [Curve("samples a second", _speeds(rows, batch))]
    tflops = [Curve("model TFLOP/s a GPU", _known((row["step"], row["tflops"]) for row in rows))]
    plots = [
        ("Loss", "loss", "Loss and validation loss by step", losses),
        ("Throughput", "samples a second", "Samples a second by step", speeds),
        ("Work of a GPU", "model TFLOP/s a GPU", "Model TFLOP/s a GPU by step", tflops),
    ]
    return [
        (title, lines(label.replace("/", "").replace(" ", "-"), alternative, "step", label, curves))
        for title, label, alternative, curves in plots
        if any(curve.points for curve in curves)
    ]


def _known(points: Any) -> list[tuple[int, float]]:
    return [(step, value) for step, value in points if value is not None]


def _speeds(rows: _Rows, batch: int) -> list[tuple[int, float]]:
    return [(row["step"], batch / row["seconds"]) for row in rows if row["seconds"]]


def _checkpoints(kept: dict[str, Any]) -> list[tuple[str, str, str]]:
    losses = {row["step"]: row["loss"] for row in kept["iterations"]}
    measured = dict(kept["validation"])
    return [(f"{step:,}", _decimal(losses.get(step)), _decimal(measured.get(step))) for step in kept["checkpoints"]]


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
