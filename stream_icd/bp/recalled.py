"""Remembered beliefs about the nodes of a graph, and the communities found with them, by stable id.

Ids number the communities of a stream from 0 on. A community keeps its id from window to window,
and no id is reused. Tables of beliefs are (n, N_KEPT): ids, most probable first, with `NO_ID` in
unused places, and their probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.belief_propagation import N_KEPT
from stream_icd.bp.level_graph import Labels
from stream_icd.graphs.compiled import compiled

Ids = NDArray[np.int64]
Shares = NDArray[np.float32]

Names = TypeVar("Names", NDArray[np.int32], NDArray[np.int64])

NO_ID = -1


@dataclass(frozen=True, slots=True, eq=False)
class Recalled:
    """What is remembered from the last window about the nodes of this one.

    Attributes:
        ids, shares: the beliefs about each node, both (n, N_KEPT).
        mixing: μ of the last window.
        stay: η of the last window.
        next_id: the first unused id.
        believed: True if belief propagation decided the result, False if modularity did.
        pull: weight of a ghost's edges, in mean edge weights, where modularity decides (`pull`);
            0 if it was not estimated yet.
        rival: (n,) what is to be compared with the remembered communities, -1 for none: parts of
            them (`finer`), or where modularity decided, communities of beliefs (`rivals`).
    """

    ids: Ids
    shares: Shares
    mixing: float
    stay: float
    next_id: int
    believed: bool = False
    pull: float = 0.0
    rival: Labels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Identified:
    """Communities found with memory.

    Attributes:
        labels: community of each node, (n,) int32 in 0..K-1, none empty.
        community_ids: id of each community, (K,).
        believed: what the next window remembers of the same nodes.
        n_continued: number of communities that continue a remembered one.
        replaced: (m, 2) remembered ids that ended, ascending: each with the id of the community
            that it is now part of, or `NO_ID` if it is forgotten.
    """

    labels: Labels
    community_ids: Ids
    believed: Recalled
    n_continued: int
    replaced: Ids


def nothing_recalled(n_nodes: int, next_id: int = 0) -> Recalled:
    """The empty memory, for nodes never seen before."""
    return Recalled(
        np.full((n_nodes, N_KEPT), NO_ID, np.int64),
        np.zeros((n_nodes, N_KEPT), np.float32),
        mixing=0.0,
        stay=0.0,
        next_id=next_id,
    )


def tidy(names: Names, shares: Shares) -> tuple[Names, Shares]:
    """The same beliefs with each community once, most probable first, unused places last.

    names: (n, N_KEPT), below 0 in unused places.
    """
    names, shares = names.copy(order="C"), shares.copy(order="C")
    _tidy(names, shares)
    return names, shares


@compiled()
def _tidy(names: Names, shares: Shares) -> None:
    """`tidy`, in place."""
    for row in range(len(names)):
        n_used = 0
        for place in range(names.shape[1]):
            name, share = names[row, place], shares[row, place]
            names[row, place], shares[row, place] = NO_ID, 0.0
            if name >= 0:
                n_used += _added(names[row], shares[row], n_used, name, share)
        for place in range(1, n_used):
            name, share, at = names[row, place], shares[row, place], place
            while at > 0 and shares[row, at - 1] < share:
                names[row, at], shares[row, at] = names[row, at - 1], shares[row, at - 1]
                at -= 1
            names[row, at], shares[row, at] = name, share


@compiled(inline="always")
def _added(names: Names, shares: Shares, n_used: int, name: int, share: float) -> int:
    """Add a belief to the first n_used ones; returns 1 if it is about another community, else 0."""
    for place in range(n_used):
        if names[place] == name:
            shares[place] += share
            return 0
    names[n_used], shares[n_used] = name, share
    return 1
