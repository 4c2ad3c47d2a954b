"""The demonstration's picture: the last snapshot's communities; quality and time over them all."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")  # before pyplot: no window, a file

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from stream_icd.demo.layout import community_layout
from stream_icd.demo.run import DemoRun
from stream_icd.demo.summary import stage_milliseconds
from stream_icd.snapshot import Snapshot

MOST_EDGES_DRAWN = 30_000
INK, FAINT = "#222222", "#9aa0a6"


def draw_demo(run: DemoRun, last: Snapshot, path: Path, agreement: list[float]) -> None:
    """Write the picture as PNG.

    Args:
        last: the snapshot of the last arrival.
        agreement: NMI with the truth of each arrival; empty where the truth is unknown.
    """
    labels = np.asarray(run.arrivals[-1].result["communities"], np.int32)
    figure = plt.figure(figsize=(15, 8.4), layout="constrained")
    grid = figure.add_gridspec(3, 2, width_ratios=(1.45, 1))
    _draw_communities(figure.add_subplot(grid[:, 0]), last, labels)
    _draw_quality(figure.add_subplot(grid[0, 1]), run, agreement)
    _draw_counts(figure.add_subplot(grid[1, 1]), run)
    _draw_times(figure.add_subplot(grid[2, 1]), run)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_communities(axes: Axes, snapshot: Snapshot, labels: NDArray[np.int32]) -> None:
    positions = community_layout(snapshot.edges, labels)
    colours = _colours(labels)
    edges = snapshot.edges[:, :: max(1, snapshot.n_edges // MOST_EDGES_DRAWN)]
    inside = labels[edges[0]] == labels[edges[1]]
    for shown, colour, alpha in ((~inside, FAINT, 0.05), (inside, None, 0.25)):
        segments = list(positions[edges[:, shown].T])
        colors = colour or colours[labels[edges[0, shown]]]
        axes.add_collection(LineCollection(segments, colors=colors, linewidths=0.4, alpha=alpha))
    axes.scatter(positions[:, 0], positions[:, 1], s=6, c=colours[labels], linewidths=0, zorder=3)
    axes.set_title(
        f"{snapshot.id}: {snapshot.n_nodes:,} nodes, {snapshot.n_edges:,} edges, "
        f"{labels.max() + 1} communities",
        loc="left",
        color=INK,
    )
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.axis("off")


def _colours(labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """A colour for each community; the largest get those furthest apart."""
    sizes = np.bincount(labels)
    wheel = plt.get_cmap("tab20")(np.arange(len(sizes)) % 20)
    colours = np.empty_like(wheel)
    colours[np.argsort(-sizes, kind="stable")] = wheel
    return colours


def _draw_quality(axes: Axes, run: DemoRun, agreement: list[float]) -> None:
    modularity = [arrival.result["modularity"] for arrival in run.arrivals]
    axes.plot(modularity, color="#1a73e8", label="modularity")
    if agreement:
        axes.plot(agreement, color="#188038", label="NMI with the truth")
    axes.set_ylim(min(0.0, *modularity), 1.02)
    axes.legend(frameon=False, loc="lower left")
    _finish(axes, "quality")


def _draw_counts(axes: Axes, run: DemoRun) -> None:
    axes.plot([arrival.result["n_communities"] for arrival in run.arrivals], color="#b06000")
    axes.set_ylim(bottom=0)
    _finish(axes, "communities")


def _draw_times(axes: Axes, run: DemoRun) -> None:
    stages = stage_milliseconds(run)
    detection = {name: times for name, times in stages.items() if name != "publish"}
    axes.stackplot(range(len(run.arrivals)), *detection.values(), labels=list(detection))
    # The first snapshots pay for compiling and would hide the rest.
    typical = np.percentile(np.sum(list(detection.values()), axis=0), 95)
    axes.set_ylim(0, 1.3 * typical)
    axes.legend(frameon=False, loc="upper left", ncols=4)
    _finish(axes, "milliseconds of detection")
    axes.set_xlabel("snapshot")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
