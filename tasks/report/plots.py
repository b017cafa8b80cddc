"""Plots as SVG for embedding in a page: without scripts and style attributes, in the page's colours."""

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from tasks.report.facts import Numbers
from tasks.report.text import clean_text

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_INK, _SERIES = "#010101", [f"#0101{number:02x}" for number in range(16, 24)]
"""Placeholder colours that are replaced by ``currentColor`` and the page's ``--s0`` to ``--s7``."""
_BINS = 40
_PLAIN = FuncFormatter(lambda value, _: f"{value:,.6g}")


@dataclass(frozen=True)
class ShardStats:
    """The downloader's counts for one shard; ``failures`` by kind."""

    shard: str
    attempts: int
    successes: int
    failures: dict[str, int]


@dataclass(frozen=True)
class Curve:
    """Values by step, in step order; ``marked`` draws a dot at each value."""

    label: str
    points: Sequence[tuple[float, float]]
    marked: bool = False


def success_over_shards(shards: Sequence[ShardStats]) -> str:
    """Plot the share of successful URLs in each shard."""
    figure, axes = _figure()
    rates = [100 * shard.successes / shard.attempts if shard.attempts else 0.0 for shard in shards]
    axes.plot(range(len(rates)), rates, color=_SERIES[0], marker="o" if len(rates) < 60 else "", markersize=3)
    axes.set(xlabel="shard", ylabel="successful URLs, %", ylim=(0, 100))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _render_svg(figure, "success-over-shards", "Share of successful URLs in each shard")


def failures_over_shards(shards: Sequence[ShardStats], kinds: Sequence[str]) -> str:
    """Plot the share of URLs lost in each shard to each of ``kinds`` (at most seven) and to all others."""
    figure, axes = _figure()
    attempts = np.array([max(shard.attempts, 1) for shard in shards])
    rows = [[shard.failures.get(kind, 0) for shard in shards] for kind in kinds]
    others = [sum(shard.failures.values()) - sum(row[at] for row in rows) for at, shard in enumerate(shards)]
    labels = [_label(kind) for kind in kinds]
    if any(others):
        rows, labels = [*rows, others], [*labels, "all others"]
    if rows:
        shares = 100 * np.array(rows, dtype=float) / attempts
        x = np.arange(len(shards))
        axes.stackplot(x, shares, labels=labels, colors=_SERIES, step="mid", linewidth=0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, labelcolor=_INK, fontsize=8)
    axes.set(xlabel="shard", ylabel="lost URLs, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _render_svg(figure, "failures-over-shards", "Share of URLs lost in each shard, by reason")


def histogram(name: str, title: str, values: Numbers, xlabel: str) -> str:
    """Plot a histogram of the positive ``values``; the axis is logarithmic if they span more than a factor of 10."""
    figure, axes = _figure()
    values = values[values > 0]
    if len(values):
        low, high = float(values.min()), float(values.max())
        logarithmic = high > 10 * low
        bins = np.geomspace(low, high, _BINS) if logarithmic else np.linspace(low, high + 1e-9, _BINS)
        axes.hist(values, bins=bins.tolist(), color=_SERIES[0])
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=xlabel, ylabel="samples")
    axes.xaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return _render_svg(figure, name, title)


def image_sizes(width: Numbers, height: Numbers) -> str:
    """Plot the number of pictures by width and height."""
    figure, axes = _figure()
    if len(width):
        counts, x, y = np.histogram2d(width, height, bins=_BINS)
        at = np.argwhere(counts > 0)
        size = 4 + 60 * np.sqrt(counts[at[:, 0], at[:, 1]] / counts.max())
        middles = (x[:-1] + x[1:]) / 2, (y[:-1] + y[1:]) / 2
        axes.scatter(middles[0][at[:, 0]], middles[1][at[:, 1]], s=size, color=_SERIES[0], alpha=0.7, linewidths=0)
    axes.set(xlabel="width, pixels", ylabel="height, pixels")
    return _render_svg(
        figure, "image-sizes", "Widths and heights of the stored pictures; larger dots are more pictures"
    )


def plot_curves(name: str, title: str, xlabel: str, ylabel: str, curves: Sequence[Curve]) -> str:
    """Plot curves over a common axis; curves without points are skipped, and a single curve gets no legend."""
    figure, axes = _figure()
    drawn = [curve for curve in curves if curve.points]
    for color, curve in zip(_SERIES, drawn, strict=False):
        x, y = zip(*curve.points, strict=True)
        marked = curve.marked or len(x) == 1
        axes.plot(x, y, color=color, label=_label(curve.label), marker="o" if marked else "", markersize=4)
    if len(drawn) > 1:
        axes.legend(frameon=False, labelcolor=_INK, fontsize=8)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _render_svg(figure, name, title)


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.4, 2.8), layout="constrained")
    figure.patch.set_alpha(0)
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.tick_params(which="both", colors=_INK, labelsize=8)
    axes.xaxis.label.set(color=_INK, fontsize=9)
    axes.yaxis.label.set(color=_INK, fontsize=9)
    axes.grid(axis="y", color=_INK, alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _label(text: str) -> str:
    """Clean free text for use as a label.

    Matplotlib would typeset ``$`` as mathematics and hide a label with a leading underscore.
    """
    return clean_text(text, 60).replace("$", r"\$").replace("_", " ")


def _render_svg(figure: Figure, name: str, title: str) -> str:
    """Render the figure as an SVG element; the same data gives the same text."""
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ET.fromstring(out.getvalue())
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _XLINK)
    for parent in list(root.iter()):
        for child in [c for c in parent if c.tag in {f"{{{_SVG}}}style", f"{{{_SVG}}}metadata"}]:
            parent.remove(child)
    for element in root.iter():
        _adapt_to_page(element, name)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.attrib |= {"class": "plot", "role": "img", "aria-label": title}
    return ET.tostring(root, encoding="unicode")


def _adapt_to_page(element: ET.Element, name: str) -> None:
    """Adapt an element to the page.

    Styles become attributes (the page's policy blocks styles), ids get the plot's name as a prefix, and placeholder
    colours become the page's colours.
    """
    for declaration in element.attrib.pop("style", "").split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key == "font":
            key, value = "font-size", re.search(r"[\d.]+px", value)[0]  # type: ignore[index]
        if key and key != "font-family":
            element.set(key, value)
    for key, value in list(element.attrib.items()):
        value = re.sub(r"url\(#", f"url(#{name}-", value)
        if key == "id":
            value = f"{name}-{value}"
        elif key == f"{{{_XLINK}}}href":
            value = f"#{name}-{value.removeprefix('#')}"
        value = value.replace(_INK, "currentColor")
        for number, color in enumerate(_SERIES):
            value = value.replace(color, f"var(--s{number})")
        element.set(key, value)
