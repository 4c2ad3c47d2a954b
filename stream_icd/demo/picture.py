"""The picture of the demonstration: communities, and what memory adds to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from stream_icd.demo.summary import evidence_in_words, model_changes
from stream_icd.events import CommunityEvents
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.partition import by_name, shared_nodes

MOST_EDGES_DRAWN = 30_000
MOST_COLUMNS = 20
INK, QUIET, FAINT = "#222222", "#5f6368", "#9aa0a6"
BLUE, ORANGE = "#0072b2", "#d55e00"  # Okabe and Ito
UNSURE = {"weak": "#f0f0f0", "none": "#dddddd"}  # background for weak evidence
TITLE, TEXT = 15, 12
DPI = 120


@dataclass(frozen=True, slots=True)
class Found:
    """The communities of all snapshots, detected in one way.

    Attributes:
        windows: with stable ids across windows.
        agreement: NMI of each with the ground truth; empty if it is unknown.
    """

    windows: Sequence[CommunityEvents]
    agreement: Sequence[float] = ()


def draw_demo(
    run: DemoRun,
    last: Snapshot,
    path: Path,
    found: Found,
    alone: Found | None,
    change_at: int | None = None,
) -> None:
    """Write the picture as PNG; the arguments are those of `demo_figure`."""
    demo_figure(run, last, found, alone, change_at).savefig(path, dpi=DPI)


def demo_figure(
    run: DemoRun,
    last: Snapshot,
    found: Found,
    alone: Found | None,
    change_at: int | None = None,
) -> Figure:
    """Plot the last communities, their quality, and nine communities over time.

    Args:
        last: the snapshot of the last arrival.
        found: what the detector found.
        alone: the same of each snapshot alone; None if the detector has no memory.
        change_at: number of snapshots before the law of the stream changes; None: it does not.
    """
    colours = colours_of(found.windows)
    figure = Figure(figsize=(14, 10.5), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr, call-arg]
    figure.suptitle(_title(run), x=0.012, ha="left", fontsize=20, color=INK)
    above, below = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=(1.15, 1)))
    left, right = above.subplots(1, 2, width_ratios=(0.8, 1))
    where = "below" if alone is None else "at the lower right"
    _draw_communities(left, last, found.windows[-1], colours, where)
    _draw_quality(right, run, found, alone)
    _mark(right, run, change_at)
    n, k = len(found.windows), len(colours)
    if alone is None:
        spread = np.unique(np.linspace(0, n - 1, MOST_COLUMNS).round().astype(int)).tolist()
        _draw_lives(below.add_subplot(), found.windows, spread, f"{k} communities over time")
    else:
        last_ones = range(max(0, n - MOST_COLUMNS // 2), n)
        left, right = below.subplots(1, 2)
        _draw_lives(left, alone.windows, last_ones, "The last snapshots, each alone")
        _draw_lives(right, found.windows, last_ones, "The last snapshots, with memory")
    return figure


def _title(run: DemoRun) -> str:
    graph, n = run.arrivals[-1].result["graph"], len(run.arrivals)
    return f"stream_icd: communities of the graph {graph} in {n} snapshot{'s' * (n != 1)}"


def _draw_communities(
    axes: Axes,
    snapshot: Snapshot,
    window: CommunityEvents,
    colours: Mapping[int, str],
    where: str,
) -> None:
    names, inverse = np.unique(window.communities, return_inverse=True)
    labels: NDArray[np.int32] = inverse.astype(np.int32)
    shades = to_rgba_array([colours.get(int(name), GREY) for name in names])
    positions = community_layout(snapshot.edges, labels)
    edges = snapshot.edges[:, :: max(1, snapshot.n_edges // MOST_EDGES_DRAWN)]
    inside = labels[edges[0]] == labels[edges[1]]
    for shown, colour, alpha in ((~inside, FAINT, 0.03), (inside, None, 0.2)):
        segments = list(positions[edges[:, shown].T])
        colors = colour or shades[labels[edges[0, shown]]]
        axes.add_collection(LineCollection(segments, colors=colors, linewidths=0.4, alpha=alpha))
    axes.scatter(positions[:, 0], positions[:, 1], s=6, c=shades[labels], linewidths=0, zorder=3)
    _entitle(
        axes,
        f"The last snapshot, {snapshot.id}",
        f"{snapshot.n_nodes:,} nodes, {len(names)} communities; colours as {where}",
    )
    axes.set_aspect("equal", anchor="W")
    axes.autoscale_view()
    axes.axis("off")


def _draw_quality(axes: Axes, run: DemoRun, found: Found, alone: Found | None) -> None:
    """Plot agreement with the truth; if it is unknown, how many nodes stay; else modularity."""
    lines = {"with memory": (found, BLUE)}
    if alone is not None:
        lines["each snapshot alone"] = (alone, ORANGE)
    for name, (one, colour) in lines.items():
        if found.agreement:
            title, values = "NMI with the planted communities", list(one.agreement)
        elif alone is not None:  # nothing is before the first snapshot
            title = "Fraction of the nodes that stay in their community"
            values = staying(one.windows)
        else:
            title = "Modularity"
            values = [arrival.result["modularity"] for arrival in run.arrivals]
        label = f"{name}: median {np.median(values):.2f}" if values else name
        places = range(len(run.arrivals) - len(values), len(run.arrivals))
        axes.plot(places, values, color=colour, linewidth=2.5, label=label)
    if alone is not None:
        axes.legend(frameon=False, loc="lower right", fontsize=TEXT)
    axes.set_ylim(0, 1.05)
    evidence = [one.result["evidence"] for one in run.arrivals]
    for place, strength in enumerate(evidence):
        if strength != "strong":
            axes.axvspan(place - 0.5, place + 0.5, color=UNSURE[strength], linewidth=0)
    _entitle(axes, title, f"evidence for communities: {evidence_in_words(evidence)}")
    axes.set_xlabel("snapshot", color=QUIET, fontsize=TEXT)
    _finish(axes)


def _mark(axes: Axes, run: DemoRun, change_at: int | None) -> None:
    """Mark where the law of the stream changes, and where the model of the detector does."""
    marks = [] if change_at is None else [(change_at, "the law changes ", "right")]
    marks += [(at, f" {run.arrivals[at].result['model']}", "left") for at in model_changes(run)]
    for at, text, side in marks:
        axes.axvline(at - 0.5, color=INK, linewidth=1, linestyle=":")
        place = (at - 0.5, 0.25)
        axes.annotate(text, place, ha=side, va="center", fontsize=TEXT, color=INK)


def staying(windows: Sequence[CommunityEvents]) -> list[float]:
    """Return, for each window but the first, the share of the nodes that keep their community.

    Of the nodes that are in the window before, too; communities are matched by the tracker.
    """
    shares = []
    for before, after in pairwise(windows):
        rows, columns = shared_nodes(
            by_name(before.nodes, before.communities), by_name(after.nodes, after.communities)
        )
        same = before.communities[rows] == after.communities[columns]
        shares.append(float(same.mean()) if len(same) else 0.0)
    return shares


def _draw_lives(
    axes: Axes, windows: Sequence[CommunityEvents], places: Sequence[int], title: str
) -> None:
    """Draw communities over the windows at these places, in colours of their own."""
    colours = colours_of(windows)
    columns = [windows[place] for place in places]
    together = sum(np.isin(one.communities, list(colours)).mean() for one in columns)
    draw_bands(axes, columns, colours, others=bool(together / len(columns) > 0.5))
    axes.set_xticks(range(len(places)), [str(place) for place in places])
    axes.set_xlabel("snapshot", color=QUIET, fontsize=TEXT)
    axes.set_ylabel("nodes", color=QUIET, fontsize=TEXT)
    axes.tick_params(labelsize=TEXT)
    kinds = [event.kind for one in windows[1:] for event in one.events]
    events = ", ".join(
        f"{kinds.count(kind)} {kind}" for kind in ("born", "merged", "split", "died")
    )
    _entitle(axes, title, f"all communities, all snapshots: {events}")
    axes.spines[["top", "right"]].set_visible(False)


def _entitle(axes: Axes, title: str, more: str = "") -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=TITLE, pad=24 if more else 8)
    if more:
        axes.annotate(
            more, (0, 1), (0, 5), "axes fraction", "offset points", color=QUIET, fontsize=TEXT
        )


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0)
    axes.tick_params(labelsize=TEXT)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
