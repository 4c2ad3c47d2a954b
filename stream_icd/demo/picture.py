"""The picture of the demonstration: last communities, their lifecycle, quality and timings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from stream_icd.demo.alluvial import GREY, colours_of, draw_bands
from stream_icd.demo.layout import community_layout
from stream_icd.demo.run import DemoRun
from stream_icd.demo.summary import evidence_in_words, stage_milliseconds
from stream_icd.demo.timeline import tracked
from stream_icd.events import CommunityEvents
from stream_icd.snapshot import Snapshot

MOST_EDGES_DRAWN = 30_000
MOST_COLUMNS = 21
INK, QUIET, FAINT = "#222222", "#5f6368", "#9aa0a6"
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"  # Okabe and Ito
UNSURE = {"weak": "#f0f0f0", "none": "#dddddd"}  # background for weak evidence
STAGE_COLOURS = {"decode": "#88ccee", "features": "#ddcc77", "encode": "#cc6677", "cluster": BLUE}


def draw_demo(run: DemoRun, last: Snapshot, path: Path, agreement: list[float]) -> None:
    """Write the picture as PNG; the arguments are those of `demo_figure`."""
    demo_figure(run, last, agreement).savefig(path, dpi=110)


def demo_figure(run: DemoRun, last: Snapshot, agreement: list[float]) -> Figure:
    """Plot the last communities, nine of them over time, quality, counts and detection time.

    Args:
        last: the snapshot of the last arrival.
        agreement: NMI of each arrival with the ground truth; empty if it is unknown.
    """
    windows = tracked(run)
    colours = colours_of(windows)
    figure = Figure(figsize=(14, 10.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr, call-arg]
    figure.suptitle(_title(run), x=0.012, ha="left", fontsize=17, color=INK)
    above, below = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=(1.45, 1)))
    grid = above.add_gridspec(3, 2, width_ratios=(0.8, 1))
    _draw_communities(above.add_subplot(grid[:, 0]), last, windows[-1], colours)
    _draw_quality(above.add_subplot(grid[0, 1]), run, agreement)
    _draw_counts(above.add_subplot(grid[1, 1]), run)
    _draw_times(above.add_subplot(grid[2, 1]), run)
    _draw_lives(below.add_subplot(), windows, colours)
    return figure


def _title(run: DemoRun) -> str:
    graph, n = run.arrivals[-1].result["graph"], len(run.arrivals)
    return f"stream_icd: communities of the graph {graph} in {n} snapshot{'s' * (n != 1)}"


def _draw_communities(
    axes: Axes, snapshot: Snapshot, window: CommunityEvents, colours: Mapping[int, str]
) -> None:
    names, inverse = np.unique(window.communities, return_inverse=True)
    labels: NDArray[np.int32] = inverse.astype(np.int32)
    shades = to_rgba_array([colours.get(int(name), GREY) for name in names])
    positions = community_layout(snapshot.edges, labels)
    edges = snapshot.edges[:, :: max(1, snapshot.n_edges // MOST_EDGES_DRAWN)]
    inside = labels[edges[0]] == labels[edges[1]]
    for shown, colour, alpha in ((~inside, FAINT, 0.04), (inside, None, 0.2)):
        segments = list(positions[edges[:, shown].T])
        colors = colour or shades[labels[edges[0, shown]]]
        axes.add_collection(LineCollection(segments, colors=colors, linewidths=0.4, alpha=alpha))
    axes.scatter(positions[:, 0], positions[:, 1], s=6, c=shades[labels], linewidths=0, zorder=3)
    _entitle(
        axes,
        f"The last snapshot, {snapshot.id}",
        f"{snapshot.n_nodes:,} nodes, {snapshot.n_edges:,} edges, {len(names)} communities; "
        "colours as below",
    )
    axes.set_aspect("equal", anchor="W")
    axes.autoscale_view()
    axes.axis("off")


def _draw_quality(axes: Axes, run: DemoRun, agreement: list[float]) -> None:
    lines = {"modularity": ([one.result["modularity"] for one in run.arrivals], BLUE)}
    if agreement:
        lines["NMI with the planted communities"] = (agreement, ORANGE)
    for name, (values, colour) in lines.items():
        axes.plot(values, color=colour)
        middle = len(values) / 2
        height = min(values) - 0.03
        axes.text(middle, height, name, color=colour, ha="center", va="top", fontsize=9)
    axes.set_ylim(min(0.0, *lines["modularity"][0]), 1.05)
    evidence = [one.result["evidence"] for one in run.arrivals]
    for place, strength in enumerate(evidence):
        if strength != "strong":
            axes.axvspan(place - 0.5, place + 0.5, color=UNSURE[strength], linewidth=0)
    saved = np.median([one.result["bits_saved"] for one in run.arrivals])
    _entitle(
        axes,
        "Quality",
        f"evidence for communities: {evidence_in_words(evidence)}; they save {saved:.2f} bits an "
        "edge (median)",
    )
    _finish(axes)


def _draw_counts(axes: Axes, run: DemoRun) -> None:
    counts = [arrival.result["n_communities"] for arrival in run.arrivals]
    axes.plot(counts, color=GREEN)
    axes.set_ylim(0, 1.15 * max(counts))
    _entitle(axes, "Number of communities")
    _finish(axes)


def _draw_times(axes: Axes, run: DemoRun) -> None:
    """Plot the time of each stage used; give the first snapshot's, which loads code, as text."""
    stages = stage_milliseconds(run)
    used = {name: stages[name] for name in STAGE_COLOURS if any(stages[name])}
    total = np.sum(list(used.values()), axis=0)
    later = range(1, len(total)) if len(total) > 1 else range(1)
    axes.stackplot(
        later,
        *([times[i] for i in later] for times in used.values()),
        labels=list(used),
        colors=[STAGE_COLOURS[name] for name in used],
    )
    axes.set_ylim(0, 1.35 * max(total[i] for i in later))
    axes.legend(frameon=False, loc="upper right", ncols=len(used), fontsize=9, borderaxespad=0)
    _entitle(
        axes,
        "Milliseconds of detection",
        f"median {np.median(total):,.0f}; not drawn: the first snapshot, {total[0]:,.0f}",
    )
    _finish(axes)
    axes.set_xlabel("snapshot", color=QUIET)


def _draw_lives(axes: Axes, windows: Sequence[CommunityEvents], colours: Mapping[int, str]) -> None:
    places = np.unique(np.linspace(0, len(windows) - 1, MOST_COLUMNS).round().astype(int))
    columns = [windows[place] for place in places]
    together = sum(np.isin(one.communities, list(colours)).mean() for one in columns)
    draw_bands(axes, columns, colours, others=bool(together / len(columns) > 0.5))
    axes.set_xticks(range(len(places)), [str(place) for place in places])
    axes.set_xlabel("snapshot", color=QUIET)
    axes.set_ylabel("nodes", color=QUIET)
    kinds = [event.kind for one in windows[1:] for event in one.events]
    events = ", ".join(
        f"{kinds.count(kind)} {kind}" for kind in ("born", "merged", "split", "died")
    )
    _entitle(
        axes,
        f"{len(colours)} communities over time",
        f"bands: members; streams between them: nodes that move. All communities: {events}",
    )
    axes.spines[["top", "right"]].set_visible(False)


def _entitle(axes: Axes, title: str, more: str = "") -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=12, pad=20 if more else 6)
    if more:
        axes.annotate(
            more, (0, 1), (0, 5), "axes fraction", "offset points", color=QUIET, fontsize=9
        )


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
