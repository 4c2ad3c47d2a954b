"""Where the names of bands stand in an alluvial diagram: in them, where they are widest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_LINE = 0.03
"""Height of a line of text, as a fraction of that of the picture."""


@dataclass(frozen=True, slots=True)
class Label:
    """Where the name of a band stands: in it, or beside the last column, with a line to it."""

    community: int
    text: str
    x: float  # in columns
    y: float  # in nodes
    leads_from: tuple[float, float] | None = None  # x and y of the band


@dataclass(slots=True)
class Bands:
    """The bands of a picture, and the labels that have a place."""

    sizes: Sequence[Mapping[int, int]]  # number of members, by column and community
    bottoms: Sequence[Mapping[int, float]]  # where each of these bands begins
    top: float  # of the picture
    letters: float  # that have room side by side in the picture
    placed: list[Label] = field(default_factory=list)

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
        all_of = {one for column in self.sizes for one in column}
        most = {one: max(column.get(one, 0) for column in self.sizes) for one in all_of}
        return sorted(most, key=lambda one: (-most[one], one))

    def in_band(self, community: int, text: str) -> Label | None:
        """Return a free place in the band, the widest first; None if there is none.

        A place where the whole text lies in the band comes before one where only its middle does.
        """
        free = [
            label
            for label in self._places(community, text)
            if all(self._apart(label, other) for other in self.placed)
        ]
        return next(filter(self._lies_in_band, free), free[0] if free else None)

    def _places(self, community: int, text: str) -> Iterator[Label]:
        """Yield the places in a band that are high enough for a name, the widest first."""
        half = self.half(text)
        there = [at for at, column in enumerate(self.sizes) if community in column]
        for at in sorted(there, key=lambda at: -self.sizes[at][community]):
            x = min(max(float(at), half - 0.4), len(self.sizes) - 0.6 - half)
            near = self._nearest(x)
            if self.sizes[near].get(community, 0) >= self.line:
                yield Label(community, text, x, self.middle(near, community))

    def _nearest(self, x: float) -> int:
        return min(max(round(x), 0), len(self.sizes) - 1)

    def _lies_in_band(self, label: Label) -> bool:
        """Whether the columns nearest to both ends of a text have the band at its height."""
        half, community = self.half(label.text), label.community
        for at in (self._nearest(label.x - half), self._nearest(label.x + half)):
            low = self.bottoms[at].get(community, self.top)
            high = low + self.sizes[at].get(community, 0)
            if not low <= label.y - self.line / 2 <= label.y + self.line / 2 <= high:
                return False
        return True

    def _apart(self, one: Label, other: Label) -> bool:
        beside = abs(one.x - other.x) >= self.half(one.text) + self.half(other.text)
        return beside or abs(one.y - other.y) >= self.line

    def beside(self, thin: Mapping[int, str]) -> Iterator[Label]:
        """Yield labels of thin bands of the last column: the first, as many as have room."""
        last = len(self.sizes) - 1
        shown = [one for one in thin if self.sizes[last].get(one, 0) > 0][: int(1 / _LINE) - 1]
        shown.sort(key=lambda one: self.middle(last, one))
        heights: list[float] = []
        lowest = self.line / 2
        for one in shown:
            heights.append(max(self.middle(last, one), lowest))
            lowest = heights[-1] + self.line
        highest = self.top - self.line / 2
        for at in reversed(range(len(shown))):
            heights[at] = min(heights[at], highest)
            highest = heights[at] - self.line
        for one, height in zip(shown, heights, strict=True):
            yield Label(one, thin[one], last + 0.6, height, (last, self.middle(last, one)))


def places_of_labels(bands: Bands, texts: Mapping[int, str]) -> list[Label]:
    """Return where the names stand; none lies on another, and none above the picture."""
    thin: dict[int, str] = {}
    for community in bands.largest_first():
        label = bands.in_band(community, texts[community])
        if label is None:
            thin[community] = texts[community]
        else:
            bands.placed.append(label)
    return [*bands.placed, *bands.beside(thin)]
