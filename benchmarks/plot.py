"""Chart of the benchmark: speed relative to the serial program, and the limit set by decoding alone."""

from pathlib import Path

from matplotlib.figure import Figure


def draw(target: Path, workers: tuple[int, ...], speed: dict[str, list[float]], floor: list[float]) -> None:
    """Draw bars for each number of workers. ``speed``: relative speed by stage; ``floor``: that of decoding alone."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(speed)
    for number, (name, times) in enumerate(speed.items()):
        left = [group + width * (number + 0.5) - 0.4 for group in range(len(workers))]
        axes.bar_label(axes.bar(left, times, width, label=name), fmt="%.2f")
    places = range(len(workers))
    lines = axes.hlines(floor, [place - 0.4 for place in places], [place + 0.4 for place in places], "black", "dashed")
    lines.set_label("decoding alone")
    axes.set_xticks(places, [f"{count} worker{'s' if count > 1 else ''}" for count in workers])
    axes.set(ylabel="times as fast as the serial program", title="The same samples, in one run")
    axes.legend()
    figure.savefig(target)
