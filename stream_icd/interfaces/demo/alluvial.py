"""An alluvial diagram: communities as bands across windows, and the nodes that move between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.patheffects import withStroke

from stream_icd.core.arrays import NOBODY
from stream_icd.core.events import CHANGES, CommunityEvents
from stream_icd.interfaces.demo.labels import Bands, Label, places_of_labels
from stream_icd.methods.tracking.confirmation import ids_in

# Paul Tol's "muted" scheme: nine colours that are distinct for any colour vision.
COLOURS = ("#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee",
           "#882255", "#44aa99", "#aa4499", "#999933")  # fmt: skip
_OTHERS = -1
GREY = "#b8bdc2"
_INK = "#5f6368"
_DARK = "#222222"
_BAR, GAP = 0.18, 0.006
_FONT, _LETTERS_PER_INCH = 10, 13
HALO = [withStroke(linewidth=3, foreground="white")]

_Colours = Mapping[int, str]
_Names = Mapping[int, str]
_Flows = dict[tuple[int, int], int]


def colours_of(windows: Sequence[CommunityEvents]) -> dict[int, str]:
    """Return a colour for each of the most notable communities.

    Communities that were born, merged, split or died come first, then the others; within each
    group, those with the most members over all windows come first.
    """
    everybody = np.concatenate([window.communities for window in windows])
    ids, counts = np.unique(everybody, return_counts=True)
    changed = np.isin(ids, list(_changed(windows[1:])))
    followed = ids[np.lexsort((-counts, ~changed))][: len(COLOURS)].tolist()
    return dict(zip(followed, COLOURS, strict=False))


def _changed(windows: Sequence[CommunityEvents]) -> set[int]:
    return {
        community
        for event in (event for window in windows for event in window.events)
        if event.kind in CHANGES
        for community in (event.community, *event.parents, *event.children)
    }


def draw_bands(
    axes: Any,
    windows: Sequence[CommunityEvents],
    colours: _Colours,
    *,
    others: bool = True,
    names: _Names | None = None,
) -> None:
    """Draw a column for each window and a band for each community that has a colour.

    The others are drawn together, in grey. A name stands in its band, where that is widest; that of
    a band that is too thin for it stands beside the last column, with a line.
    """
    columns = [_heights(window, list(colours), others=others) for window in windows]
    total = max(sum(column.values()) for column in columns)
    bottoms = [stack(column, total) for column in columns]
    top = 0.0
    for x, (column, bottom) in enumerate(zip(columns, bottoms, strict=True)):
        for community, size in column.items():
            axes.bar(x, size, _BAR, bottom[community], color=colours.get(community, GREY))
            top = max(top, bottom[community] + size)
    for x, (before, after) in enumerate(pairwise(windows)):
        _flow(axes, x, _moves(before, after, list(colours)), bottoms[x], bottoms[x + 1], colours)
    top *= 1.02
    texts = {
        one: "all others" if one == _OTHERS else (names or {}).get(one, f"community {one}")
        for column in columns
        for one in column
    }
    axes.set_xlim(-0.5, len(windows) - 0.5)
    axes.set_ylim(0, top)
    letters = axes.get_window_extent().width / axes.figure.dpi * _LETTERS_PER_INCH
    for label in places_of_labels(Bands(columns, bottoms, top, letters), texts):
        _draw_label(axes, label)


def _draw_label(axes: Any, label: Label) -> None:
    align = "center" if label.leads_from is None else "left"
    axes.text(label.x, label.y, label.text, ha=align, va="center", color=_DARK, fontsize=_FONT,
              clip_on=False, parse_math=False, path_effects=HALO)  # fmt: skip
    if label.leads_from is not None:
        x, y = label.leads_from
        ends = [x + _BAR / 2, label.x - _BAR / 2], [y, label.y]
        axes.plot(*ends, color=_INK, linewidth=0.8, clip_on=False)


def _heights(events: CommunityEvents, shown: Sequence[int], *, others: bool) -> dict[int, int]:
    """Return the number of members of each shown community, in order, and of all others."""
    ids, counts = np.unique(events.communities, return_counts=True)
    sizes = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    column = {community: sizes.pop(community) for community in shown if community in sizes}
    return {**column, _OTHERS: sum(sizes.values())} if others else column or {_OTHERS: 0}


def stack(column: Mapping[int, int], total: int) -> dict[int, float]:
    """Return where each band of a column begins."""
    bottom, places = 0.0, {}
    for community, size in column.items():
        places[community] = bottom
        bottom += size + GAP * total
    return places


def _moves(before: CommunityEvents, after: CommunityEvents, shown: Sequence[int]) -> _Flows:
    """Return how many nodes moved from each band to each other band."""
    pairs = np.stack([before.communities, ids_in(after, before.nodes)])
    pairs = pairs[:, pairs[1] != NOBODY]
    pairs[~np.isin(pairs, shown)] = _OTHERS
    ways, counts = np.unique(pairs, axis=1, return_counts=True)
    return {(a, b): n for a, b, n in zip(*ways.tolist(), counts.tolist(), strict=True)}


def _flow(
    axes: Any,
    x: int,
    flows: _Flows,
    left: Mapping[int, float],
    right: Mapping[int, float],
    colours: _Colours,
) -> None:
    """Draw the flows between two columns; the height of each is its number of nodes."""
    starts, ends = dict(left), dict(right)
    rank_left, rank_right = list(left), list(right)
    across = np.linspace(0, 1, 30)
    bend = across**2 * (3 - 2 * across)
    place = x + _BAR / 2 + across * (1 - _BAR)
    drawn = [way for way in flows if way[0] in starts and way[1] in ends]
    for a, b in sorted(drawn, key=lambda way: (rank_left.index(way[0]), rank_right.index(way[1]))):
        n = flows[a, b]
        low = starts[a] + bend * (ends[b] - starts[a])
        colour = colours.get(a, GREY)
        axes.fill_between(place, low, low + n, color=colour, alpha=0.55 if a != b else 0.3, lw=0)
        starts[a] += n
        ends[b] += n
