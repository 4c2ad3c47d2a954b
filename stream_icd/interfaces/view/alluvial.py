"""An alluvial diagram: communities as bands across windows, and the nodes that move between.

The names of bands stand in them, where they are widest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.patheffects import withStroke

from stream_icd.core.arrays import NOBODY
from stream_icd.core.events import CHANGES, CommunityEvents

# Paul Tol's "muted" scheme: nine colours that are distinct for any colour vision.
COLOURS = ("#332288", "#cc6677", "#117733", "#ddcc77", "#88ccee",
           "#882255", "#44aa99", "#aa4499", "#999933")  # fmt: skip
_OTHERS = -1
GREY = "#b8bdc2"
_INK = "#5f6368"
_DARK = "#222222"
_BAR, _GAP = 0.18, 0.006
_FONT, _LETTERS_PER_INCH = 10, 13
_LINE = 0.03  # height of a line of text, as a fraction of that of the picture

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
    bottoms = [_stack(column, total) for column in columns]
    top = 0.0
    for x, (column, bottom) in enumerate(zip(columns, bottoms, strict=True)):
        for community, size in column.items():
            axes.bar(x, size, _BAR, bottom[community], color=colours.get(community, GREY))
            top = max(top, bottom[community] + size)
    for x, (before, after) in enumerate(pairwise(windows)):
        _flow(axes, x, _moves(before, after, list(colours)), bottoms[x], bottoms[x + 1], colours)
    top *= 1.02
    texts = {id: (names or {}).get(id, f"community {id}") for column in columns for id in column}
    texts |= {_OTHERS: "all others"}
    # The limits before the labels: whether a name has room depends on them.
    axes.set_xlim(-0.5, len(windows) - 0.5)
    axes.set_ylim(0, top)
    letters = axes.get_window_extent().width / axes.figure.dpi * _LETTERS_PER_INCH
    for label in _places_of_labels(_Bands(columns, bottoms, top, letters), texts):
        _draw_label(axes, label)


def _draw_label(axes: Any, label: _Label) -> None:
    align = "center" if label.leads_from is None else "left"
    axes.text(label.x, label.y, label.text, ha=align, va="center", color=_DARK, fontsize=_FONT,
              clip_on=False, parse_math=False, path_effects=HALO)  # fmt: skip
    if label.leads_from is not None:
        x, y = label.leads_from
        xs, ys = [x + _BAR / 2, label.x - _BAR / 2], [y, label.y]
        axes.plot(xs, ys, color=_INK, linewidth=0.8, clip_on=False)


def _heights(events: CommunityEvents, shown: Sequence[int], *, others: bool) -> dict[int, int]:
    ids, counts = np.unique(events.communities, return_counts=True)
    sizes = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    column = {community: sizes.pop(community) for community in shown if community in sizes}
    return {**column, _OTHERS: sum(sizes.values())} if others else column or {_OTHERS: 0}


def _stack(column: Mapping[int, int], total: int) -> dict[int, float]:
    bottom, places = 0.0, {}
    for community, size in column.items():
        places[community] = bottom
        bottom += size + _GAP * total
    return places


def _moves(before: CommunityEvents, after: CommunityEvents, shown: Sequence[int]) -> _Flows:
    pairs = np.stack([before.communities, after.communities_of(before.nodes)])
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


@dataclass(frozen=True, slots=True)
class _Label:
    """Where the name of a band stands: in it, or beside the last column, with a line to it."""

    community: int
    text: str
    x: float  # in columns
    y: float  # in nodes
    leads_from: tuple[float, float] | None = None  # x and y of the band


@dataclass(slots=True)
class _Bands:
    """The bands of a picture, and the labels that have a place."""

    sizes: Sequence[Mapping[int, int]]  # number of members, by column and community
    bottoms: Sequence[Mapping[int, float]]  # where each of these bands begins
    top: float  # of the picture
    letters: float  # that have room side by side in the picture
    placed: list[_Label] = field(default_factory=list)

    @property
    def line(self) -> float:
        return _LINE * self.top

    def middle(self, at: int, community: int) -> float:
        return self.bottoms[at][community] + self.sizes[at][community] / 2

    def half(self, text: str) -> float:
        """Half the width of a text, in columns."""
        return len(text) / 2 * len(self.sizes) / self.letters

    def largest_first(self) -> list[int]:
        """Return all communities, by their size where they are widest."""
        ids = {id for column in self.sizes for id in column}
        widest = {id: max(column.get(id, 0) for column in self.sizes) for id in ids}
        return sorted(widest, key=lambda id: (-widest[id], id))

    def in_band(self, community: int, text: str) -> _Label | None:
        """Return a free place in the band, the widest first; None if there is none.

        A place where the whole text lies in the band comes before one where only its middle does.
        """
        free = [
            label
            for label in self._places(community, text)
            if all(self._apart(label, placed) for placed in self.placed)
        ]
        return next(filter(self._lies_in_band, free), free[0] if free else None)

    def _places(self, community: int, text: str) -> Iterator[_Label]:
        """Yield the places in a band that are high enough for a name, the widest first."""
        half = self.half(text)
        places = [at for at, column in enumerate(self.sizes) if community in column]
        for at in sorted(places, key=lambda at: -self.sizes[at][community]):
            x = min(max(float(at), half - 0.4), len(self.sizes) - 0.6 - half)
            near = self._nearest(x)
            if self.sizes[near].get(community, 0) >= self.line:
                yield _Label(community, text, x, self.middle(near, community))

    def _nearest(self, x: float) -> int:
        return min(max(round(x), 0), len(self.sizes) - 1)

    def _lies_in_band(self, label: _Label) -> bool:
        """Whether the columns nearest to both ends of a text have the band at its height."""
        half, community = self.half(label.text), label.community
        for at in (self._nearest(label.x - half), self._nearest(label.x + half)):
            low = self.bottoms[at].get(community, self.top)
            high = low + self.sizes[at].get(community, 0)
            if not low <= label.y - self.line / 2 <= label.y + self.line / 2 <= high:
                return False
        return True

    def _apart(self, a: _Label, b: _Label) -> bool:
        beside = abs(a.x - b.x) >= self.half(a.text) + self.half(b.text)
        return beside or abs(a.y - b.y) >= self.line

    def beside(self, thin: Mapping[int, str]) -> Iterator[_Label]:
        """Yield labels of thin bands of the last column: the first, as many as have room."""
        last = len(self.sizes) - 1
        shown = [id for id in thin if self.sizes[last].get(id, 0) > 0][: int(1 / _LINE) - 1]
        shown.sort(key=lambda id: self.middle(last, id))
        heights: list[float] = []
        lowest = self.line / 2
        for community in shown:
            heights.append(max(self.middle(last, community), lowest))
            lowest = heights[-1] + self.line
        # Upwards first, so that none lies on another; then down those that left the picture.
        highest = self.top - self.line / 2
        for at in reversed(range(len(shown))):
            heights[at] = min(heights[at], highest)
            highest = heights[at] - self.line
        for community, y in zip(shown, heights, strict=True):
            leads_from = last, self.middle(last, community)
            yield _Label(community, thin[community], last + 0.6, y, leads_from)


def _places_of_labels(bands: _Bands, texts: Mapping[int, str]) -> list[_Label]:
    """Return where the names stand; none lies on another, and none above the picture."""
    thin: dict[int, str] = {}
    for community in bands.largest_first():
        label = bands.in_band(community, texts[community])
        if label is None:
            thin[community] = texts[community]
        else:
            bands.placed.append(label)
    return [*bands.placed, *bands.beside(thin)]
