"""An alluvial picture: communities as bands from window to window, and who moves between them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from stream_icd.events import CommunityEvents
from stream_icd.tracking.partition import by_name, shared_nodes

COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
           "#995533", "#77aadd", "#44bb99", "#ee8866", "#ddaa33", "#885599")  # fmt: skip
OTHERS = "#cccccc"
BAR, GAP = 0.18, 0.006

Flows = dict[tuple[int, int], int]


def draw_alluvial(windows: Sequence[CommunityEvents], out: Path) -> None:
    """Write the picture: a column a window, a band a community, the largest in colour."""
    order = by_presence(windows)
    colours = dict(zip(order, COLOURS, strict=False))
    columns = [heights(one, order) for one in windows]
    total = max(sum(column.values()) for column in columns)
    figure = Figure(figsize=(14, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    bottoms = [stack(column, total) for column in columns]
    for x, (column, bottom) in enumerate(zip(columns, bottoms, strict=True)):
        for community, size in column.items():
            axes.bar(x, size, BAR, bottom[community], color=colours.get(community, OTHERS))
    for x, (before, after) in enumerate(pairwise(windows)):
        flow(axes, x, moves(before, after, set(order)), bottoms[x], bottoms[x + 1], colours)
    label(axes, windows, columns[-1], bottoms[-1], colours)
    figure.savefig(out, dpi=90)


def by_presence(windows: Sequence[CommunityEvents]) -> list[int]:
    """The communities that get a colour, those with the most members over all windows first."""
    everybody = np.concatenate([one.communities for one in windows])
    ids, counts = np.unique(everybody, return_counts=True)
    return ids[np.argsort(-counts, kind="stable")][: len(COLOURS)].tolist()


def heights(one: CommunityEvents, order: Sequence[int]) -> dict[int, int]:
    """Members of each community, those in colour in their order, the rest as one (-1)."""
    ids, counts = np.unique(one.communities, return_counts=True)
    sizes = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    shown = {community: sizes.pop(community) for community in order if community in sizes}
    return {**shown, -1: sum(sizes.values())}


def stack(column: dict[int, int], total: int) -> dict[int, float]:
    """Where each band of a column begins."""
    bottom, places = 0.0, {}
    for community, size in column.items():
        places[community] = bottom
        bottom += size + GAP * total
    return places


def moves(before: CommunityEvents, after: CommunityEvents, shown: set[int]) -> Flows:
    """How many nodes went from each band to each."""
    old, new = by_name(before.nodes, before.communities), by_name(after.nodes, after.communities)
    rows, columns = shared_nodes(old, new)
    pairs = np.stack([old.names[old.labels[rows]], new.names[new.labels[columns]]])
    pairs[~np.isin(pairs, list(shown))] = -1
    ways, counts = np.unique(pairs, axis=1, return_counts=True)
    return {(a, b): n for a, b, n in zip(*ways.tolist(), counts.tolist(), strict=True)}


def flow(
    axes: Any, x: int, flows: Flows, left: dict[int, float], right: dict[int, float],
    colours: dict[int, str],
) -> None:  # fmt: skip
    """The streams between two columns, each as high as it has nodes."""
    starts, ends = dict(left), dict(right)
    rank_left, rank_right = list(left), list(right)
    across = np.linspace(0, 1, 30)
    bend = across**2 * (3 - 2 * across)
    place = x + BAR / 2 + across * (1 - BAR)
    for (a, b), n in sorted(
        flows.items(), key=lambda way: (rank_left.index(way[0][0]), rank_right.index(way[0][1]))
    ):
        low = starts[a] + bend * (ends[b] - starts[a])
        colour = colours.get(a, OTHERS)
        axes.fill_between(place, low, low + n, color=colour, alpha=0.45 if a != b else 0.25, lw=0)
        starts[a] += n
        ends[b] += n


def label(
    axes: Any,
    windows: Sequence[CommunityEvents],
    column: dict[int, int],
    bottom: dict[int, float],
    colours: dict[int, str],
) -> None:
    for community, size in column.items():
        name = f"community {community}" if community >= 0 else "all others"
        colour = colours.get(community, "#777777")
        height = bottom[community] + size / 2
        axes.text(len(windows) - 0.8, height, name, va="center", color=colour, fontsize=9)
    step = max(1, len(windows) // 10)
    axes.set_xticks(
        range(0, len(windows), step), [f"{w.window.start:%d %b %Y}" for w in windows[::step]],
        fontsize=8,
    )  # fmt: skip
    axes.set_xlim(-0.5, len(windows) + 2)
    axes.set_ylabel("autonomous systems")
    axes.spines[["top", "right"]].set_visible(False)
