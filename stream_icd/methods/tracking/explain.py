"""What happened around a node: where it was and is, and which edges say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.errors import BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.core.printable import printable, shortened
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.tracking.sentences import called_by, how_far_back, told

MOST_CHOICES = 5
MOST_EDGES = 20
MOST_COMPANIONS = 10
_LEAST_SAID = 0.001
"""Less probable communities stand among the numbers only."""
_FAINTEST = 0.05
"""Windows with less weight than this are not asked."""


@dataclass(frozen=True, slots=True)
class _CommunityChoice:
    community: int
    probability: float  # given where all other nodes are
    edges: float  # weight of the node's edges to it; an edge of the newest window has weight 1


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge of the node, and by how many bits it speaks for the community of the other node."""

    to: str
    community: int
    weight: float  # as in `CommunityChoice.edges`
    bits: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What happened around a node in a window.

    Attributes:
        node: as the caller gave it, as text.
        at: start of the window.
        now: stable id of its community; None if it is not in the window.
        before, left: its last other community, and the end of the last window in which it was
            there; None if there is none.
        choices: the most probable communities, best first.
        edges: those that say most: first for its own community, then for others; most bits first.
        companions, n_companions: nodes that were in `before` then and are in `now`.
        reach: start of the oldest window whose edges count.
        horizon: how many windows the edges are worth; horizon_for: for how many windows on end.
    """

    node: str
    at: datetime
    now: int | None
    before: int | None
    left: datetime | None
    choices: tuple[_CommunityChoice, ...]
    edges: tuple[_Edge, ...]
    companions: tuple[str, ...]
    n_companions: int
    reach: datetime
    horizon: float
    horizon_for: int | None

    def sentences(self, names: Mapping[int, str] | None = None) -> Iterator[str]:
        """Yield what happened, in words; `names`: of communities, by id."""
        node, at = printable(shortened(self.node)), f"{told(self.at)} UTC"
        called = called_by(names)
        where = "not" if self.now is None else f"in {called(self.now)}"
        yield f"Node {node} is {where} in the window of {at}."
        if self.before is not None and self.left is not None:
            yield f"It was in {called(self.before)} until {told(self.left)}."
        if self.now is None:
            return
        if self.before is None:
            yield "It was in no other community in the windows before that are known."
        else:
            companions = "nobody else" if not self.n_companions else f"{self.n_companions:,} others"
            yield f"With it moved {companions}."
        if not self.edges:
            yield "It has no edges to nodes of this window: nothing speaks for any community."
            return
        probabilities = [
            f"{called(choice.community)}: {choice.probability:.3f}"
            for choice in self.choices
            if choice.probability >= _LEAST_SAID
        ]
        yield f"Probability, given where all others are: {'; '.join(probabilities)}."
        weights = {choice.community: choice.edges for choice in self.choices}
        apart = [choice for choice in self.choices if choice.community != self.now]
        own = f"Its edges to {called(self.now)} weigh {weights.get(self.now, 0.0):,.1f}"
        if apart and (most := max(apart, key=lambda choice: choice.edges)).edges:
            own += f", those to {called(most.community)} {most.edges:,.1f}"
        yield f"{own}."
        if (strongest := self.edges[0]).community == self.now:
            yield (
                f"The edge that says most for {called(self.now)} is to "
                f"{printable(shortened(strongest.to))}: {strongest.bits:.1f} bits."
            )
        yield how_far_back(self.reach, self.horizon, self.horizon_for)


@dataclass(frozen=True, slots=True)
class RememberedEdges:
    """The edges of the newest windows, of which older ones count less (`window_weights`)."""

    newest: CommunityEvents  # the window to explain
    snapshots: Sequence[Snapshot]  # the graphs that count, newest first
    weights: Sequence[float]  # of an edge of each

    @classmethod
    def of(
        cls, windows: Sequence[CommunityEvents], snapshots: Sequence[Snapshot], horizon: float
    ) -> RememberedEdges:
        """Return the edges that count in the last window; raises as `explain`."""
        if not windows or not snapshots:
            raise BadSettings("give at least one window, and its graph")
        if not horizon >= 1:
            raise BadSettings(f"horizon={horizon!r}: the memory is worth at least 1 window")
        newest = windows[-1]
        ends = [snapshot.window.end for snapshot in snapshots]
        if ends[0] != newest.window.end or ends != sorted(ends, reverse=True):
            raise BadSettings(
                f"graphs end at {', '.join(map(told, ends[:3]))}: give that of the window that "
                f"ends at {told(newest.window.end)} first, then those before it, newest first"
            )
        weights = window_weights(horizon, len(snapshots))
        return cls(newest, snapshots[: len(weights)], weights)

    @property
    def reach(self) -> datetime:
        return self.snapshots[-1].window.start

    def aligned(self) -> Iterator[tuple[float, Ids]]:
        """Yield the weight of each window, and its edges `(2, m)`, as positions in `newest`."""
        for weight, snapshot in zip(self.weights, self.snapshots, strict=True):
            ends = places(snapshot.nodes, self.newest.nodes)[snapshot.edges]
            yield weight, ends[:, (ends >= 0).all(axis=0)]

    @staticmethod
    def rates(volume: Floats, n_edges: float, within: float) -> Floats:
        """Return how many bits an edge inside communities of these volumes says.

        n_edges, within: the weight of all edges, and of those within communities.
        """
        mixing = (n_edges - within + 0.5) / (n_edges + 1)  # μ, never 0 or 1
        return np.log2(1 + (1 - mixing) / mixing * 2 * n_edges / np.maximum(volume, 1e-300))


def window_weights(horizon: float, most: int) -> list[float]:
    """Return how much the edges of each window count, the newest first: λ^age, λ = 1 − 1 / horizon.

    >>> [round(weight, 2) for weight in window_weights(2, 12)]
    [1.0, 0.5, 0.25, 0.12, 0.06]
    """
    decay = 1 - 1 / horizon
    weights = [decay**age for age in range(most)]
    return [weight for weight in weights if weight >= _FAINTEST]


def explain(
    node: int | str,
    windows: Sequence[CommunityEvents],
    snapshots: Sequence[Snapshot],
    horizon: float = 1.0,
    horizon_for: int | None = None,
) -> Explanation:
    """Explain the community of a node in the newest of some windows.

    The probability of a community is that of the planted partition model which bp uses, given the
    communities of all other nodes: an edge to community c speaks for it with
    log2(1 + (1 − μ)/μ · 2E / vol_c) bits, and before any edge its probability is its share of the
    nodes. Edges are those of the newest windows, older ones with less weight (`window_weights`).

    Args:
        node: id; that of an integer also as text.
        windows: tracked windows, oldest first; the last one is explained.
        snapshots: the graphs of the newest windows, newest first; as many as `window_weights` has
            count.
        horizon, horizon_for: how many windows the memory was worth, and for how many on end.

    Raises:
        BadSettings: there is no window, or no graph; the first graph is not that of the last
            window, or they are not newest first; or the horizon is below 1.
    """
    edges_of = RememberedEdges.of(windows, snapshots, horizon)
    newest = edges_of.newest
    now = newest.community_of(node)
    earlier = ((window, window.community_of(node)) for window in reversed(windows[:-1]))
    before, former = next((pair for pair in earlier if pair[1] not in (None, now)), (None, None))
    choices, edges = _choices_and_edges(newest.place_of(node), edges_of)
    companions = () if before is None or now is None else _companions(node, before, newest)
    return Explanation(
        node=str(node),
        at=newest.window.start,
        now=now,
        before=former,
        left=None if before is None else before.window.end,
        choices=choices,
        edges=edges,
        companions=companions[:MOST_COMPANIONS],
        n_companions=len(companions),
        reach=edges_of.reach,
        horizon=horizon,
        horizon_for=horizon_for,
    )


def _choices_and_edges(
    me: int, edges_of: RememberedEdges
) -> tuple[tuple[_CommunityChoice, ...], tuple[_Edge, ...]]:
    """Return both for the node at this position; none if it is below 0."""
    newest = edges_of.newest
    ids, labels = np.unique(newest.communities, return_inverse=True)
    volume, within = np.zeros(len(ids)), 0.0
    mine: Floats = np.zeros(len(labels))
    for weight, ends in edges_of.aligned():
        volume += weight * np.bincount(labels[ends.ravel()], minlength=len(ids))
        within += weight * float((labels[ends[0]] == labels[ends[1]]).sum())
        for ends_here, ends_there in (ends, ends[::-1]):
            mine += weight * np.bincount(ends_there[ends_here == me], minlength=len(labels))
    n_edges = volume.sum() / 2
    if me < 0 or not mine.any():
        return (), ()
    rates = edges_of.rates(volume, n_edges, within)
    to = np.bincount(labels, mine, minlength=len(ids))
    sizes = np.bincount(np.delete(labels, me), minlength=len(ids))
    # In a community without other nodes, half a node stands for none: log 0 would rule it out.
    bits = to * rates + np.log2(np.maximum(sizes, 0.5))
    # Less the largest, so that the power of 2 does not overflow.
    shares = np.exp2(bits - bits.max())
    shares /= shares.sum()
    # By the edges where probabilities are equal, as those near 0 are after rounding.
    best = np.lexsort((-to, -shares))[:MOST_CHOICES].tolist()
    choices = tuple(_CommunityChoice(int(ids[at]), float(shares[at]), float(to[at])) for at in best)
    gains = mine * rates[labels]
    order = np.argsort(-gains, kind="stable")[: int((mine > 0).sum())]
    own = labels[order] == labels[me]
    # Some are always against: else only the edges that agree would be shown.
    against = order[~own][: MOST_EDGES // 2]
    strongest = [*order[own][: MOST_EDGES - len(against)], *against]
    names = newest.nodes.take(strongest).to_pylist()
    edges = tuple(
        _Edge(str(name), int(ids[labels[at]]), float(mine[at]), float(gains[at]))
        for name, at in zip(names, strongest, strict=True)
    )
    return choices, edges


def _companions(
    node: int | str, before: CommunityEvents, newest: CommunityEvents
) -> tuple[str, ...]:
    """Return the nodes that were with the node before and are with it now."""
    then = before.members_of(before.community_of(node))
    together = then.filter(newest.communities_of(then) == newest.community_of(node))
    own = newest.nodes[newest.place_of(node)].as_py()
    return tuple(str(name) for name in together.to_pylist() if name != own)
