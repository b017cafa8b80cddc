"""Plot of loss and validation loss by step, as an image for an artifact."""

import base64
import io

from tasks.megatron.logs import TrainingLog

_WIDTH_INCHES, _HEIGHT_INCHES, _DPI = 8, 4, 100


def curves(log: TrainingLog) -> str | None:
    """Return the plot as a PNG data URI, or None if nothing was logged."""
    if not log.iterations and not log.validation:
        return None
    # Imported here because it is slow to import and needed only for this plot.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, _HEIGHT_INCHES), layout="constrained")
    axes = figure.subplots()
    axes.plot([entry.step for entry in log.iterations], [entry.loss for entry in log.iterations], label="train")
    if log.validation:
        axes.plot(*zip(*log.validation, strict=True), marker="o", label="validation")
    axes.set(xlabel="step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
