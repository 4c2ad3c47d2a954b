"""The picture of quality against time: a panel for each data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.lab.first import OURS
from benchmarks.lab.measured import Measured
from benchmarks.lab.paper.published import means

PARTITIONERS = (
    "leiden",
    "plm",
    "plp",
    "louvain",
    "igraph-leiden",
    "igraph-leiden-k",
    "label-propagation",
    "infomap",
    "walktrap",
    "graclus",
    "mc-sbm",
    "locale",
)
"""Other people's methods that work on the graph itself; all others embed or factorise it."""

KINDS = (
    ("ours", "D", "#D55E00"),
    ("graph algorithms", "o", "#0072B2"),
    ("embedding or factorisation", "^", "#009E73"),
)
"""Name, marker and colour (of Okabe and Ito, which colour-blind readers can tell apart)."""

COLUMNS = 2

NOTABLE = 0.5
"""Points of quality that a slower method must gain to be on the line."""


def draw(found: Measured, path: Path) -> None:
    """Write the picture as PNG."""
    rows = -(-len(found.data_sets) // COLUMNS)
    figure = Figure(figsize=(12, 3.4 * rows), layout="constrained")
    axes: Any = figure.subplots(rows, COLUMNS, squeeze=False)
    for panel, name in zip(axes.flat, found.data_sets, strict=False):
        _panel(panel, found, name)
    for panel in axes.flat[len(found.data_sets) :]:
        panel.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(KINDS) + 1)
    figure.savefig(path, dpi=80)


def _panel(panel: Axes, found: Measured, name: str) -> None:
    known = any(found.mean(name, method, "nmi") is not None for method in found.methods)
    measure = "nmi" if known else "modularity"
    points, graphs = {}, found.common_graphs(name)
    for method in found.methods:
        quality, seconds = (
            found.mean(name, method, column, graphs) for column in (measure, "seconds")
        )
        if quality is not None and seconds:
            points[method] = (seconds, 100 * quality)
    for number, (kind, marker, colour) in enumerate(KINDS):
        of_kind = [point for method, point in points.items() if _kind(method) == number]
        x, y = zip(*of_kind, strict=True) if of_kind else ((), ())
        panel.scatter(x, y, s=36, marker=marker, color=colour, label=kind, zorder=3)
    published = means()
    paper = published.get(("seconds", "ICD-M", name)), published.get((measure, "ICD-M", name))
    if None not in paper:
        panel.scatter(*paper, s=60, marker="*", color="black", label="ICD-M in the paper", zorder=2)
    front = _front(points)
    panel.plot(*zip(*[points[one] for one in front], strict=True), color="#BBBBBB", zorder=1)
    for number, method in enumerate(
        sorted({*front, *points.keys() & {"bp", "icd"}}, key=points.get)
    ):
        above = number % 2 == 0
        panel.annotate(
            method,
            points[method],
            xytext=(0, 6 if above else -14),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    panel.margins(x=0.12, y=0.18)
    panel.set(
        title=name,
        xscale="log",
        xlabel="seconds",
        ylabel=f"{measure.upper() if known else measure}, %",
    )
    panel.grid(alpha=0.3)


def _kind(method: str) -> int:
    if method in OURS:
        return 0
    return 1 if method in PARTITIONERS else 2


def _front(points: dict[str, tuple[float, float]]) -> list[str]:
    """From the fastest on, each method that is better than all faster ones."""
    front: list[str] = []
    for method in sorted(points, key=lambda one: (points[one][0], -points[one][1])):
        if not front or points[method][1] > points[front[-1]][1] + NOTABLE:
            front.append(method)
    return front
