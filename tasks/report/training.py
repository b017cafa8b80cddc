"""Training report: one page that opens from disk, built from what the training's jobs logged."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from tasks.contracts.errors import DatasetError
from tasks.io.files import write_bytes
from tasks.report.page import render_page
from tasks.report.places import read_json
from tasks.report.plots import Curve, plot_curves

_Rows = list[dict[str, Any]]


def write_training_report(log: Path, target: Path) -> Path:
    """Write the report of a training to ``target``, from the ``log.json`` that train-model writes.

    Raises DatasetError if that file is missing.
    """
    history = read_json(log)
    if not history:
        raise DatasetError(f"{log} is missing: no job of this training has logged anything yet")
    page = render_page("training.html", ("common.css", "report.css"), "report.js", **_values(history))
    write_bytes(target, page)
    return target


def _values(history: dict[str, Any]) -> dict[str, Any]:
    rows, settings = history["iterations"], history["settings"]
    return {
        "name": history["name"],
        "lead": f"{settings['mode']} of {settings['hf_model']}, recipe {settings['recipe']}.",
        "tiles": _tiles(history),
        "warning": _warning(rows),
        "plots": [(title, Markup(plot)) for title, plot in _plots(rows, history["validation"], _batch(history))],
        "checkpoints": _checkpoints(history),
        "settings": sorted(settings.items()),
    }


def _batch(history: dict[str, Any]) -> int:
    return int(history["settings"]["global_batch_size"])


def _tiles(history: dict[str, Any]) -> list[tuple[str, str]]:
    rows, validation = history["iterations"], [loss for _, loss in history["validation"] if loss is not None]
    last = rows[-1] if rows else None
    seconds = [row["seconds"] for row in rows[1:] if row["seconds"]]
    speed = f"{_batch(history) * len(seconds) / sum(seconds):,.1f}" if seconds else "-"
    return [
        (f"{last['step']:,} of {last['of']:,}" if last else "0", "steps"),
        (_decimal(last["loss"]) if last else "-", "last loss"),
        (_decimal(min(validation, default=None)), "lowest validation loss"),
        (speed, "samples a second, without the start"),
        (f"{history['checkpoints'][-1]:,}" if history["checkpoints"] else "none", "newest checkpoint"),
    ]


def _warning(rows: _Rows) -> str | None:
    skipped, nan = (sum(row[name] for row in rows) for name in ("skipped", "nan"))
    return f"Steps skipped: {skipped:,}; with a NaN loss: {nan:,}." if skipped or nan else None


def _plots(rows: _Rows, validation: list[tuple[int, float | None]], batch: int) -> list[tuple[str, str]]:
    losses = [Curve("train", _drop_missing((row["step"], row["loss"]) for row in rows))]
    losses.append(Curve("validation", _drop_missing(validation), marked=True))
    speeds = [Curve("samples a second", _speeds(rows, batch))]
    tflops = [Curve("model TFLOP/s a GPU", _drop_missing((row["step"], row["tflops"]) for row in rows))]
    plots = [
        ("Loss", "loss", "Loss and validation loss by step", losses),
        ("Throughput", "samples a second", "Samples a second by step", speeds),
        ("Work of a GPU", "model TFLOP/s a GPU", "Model TFLOP/s a GPU by step", tflops),
    ]
    return [
        (title, plot_curves(label.replace("/", "").replace(" ", "-"), alternative, "step", label, curves))
        for title, label, alternative, curves in plots
        if any(curve.points for curve in curves)
    ]


def _drop_missing(points: Any) -> list[tuple[int, float]]:
    return [(step, value) for step, value in points if value is not None]


def _speeds(rows: _Rows, batch: int) -> list[tuple[int, float]]:
    return [(row["step"], batch / row["seconds"]) for row in rows if row["seconds"]]


def _checkpoints(history: dict[str, Any]) -> list[tuple[str, str, str]]:
    losses = {row["step"]: row["loss"] for row in history["iterations"]}
    measured = dict(history["validation"])
    return [(f"{step:,}", _decimal(losses.get(step)), _decimal(measured.get(step))) for step in history["checkpoints"]]


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
