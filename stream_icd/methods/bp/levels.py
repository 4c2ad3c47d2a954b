"""Levels of communities: those of communities, and those inside a community.

A tree of communities describes a graph in parts: at each node of the tree, the edges between the
communities that it consists of, by the planted model of `quality.partition`, in which these are the
nodes (the nested model: Peixoto, "Hierarchical block structures and high-resolution model selection
in large networks", Physical Review X 2014). So a further level is worth it if it shortens the
description of these edges, and each is found as the communities of any graph are.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import Ids, Labels
from stream_icd.methods.bp.agglomeration import agglomerate
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import (
    LevelGraph,
    coarsen,
    compact,
    entries_at,
    level_of,
    members_of,
    rows_of,
)
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import measured

_SEARCH = BpParameters(search=True)

Wanted = Literal["none", "above", "all"]
"""Which levels to find: above only is O(E) once, below searches each community by itself."""


class Levels(NamedTuple):
    """Levels above communities, finest first, and below them, coarsest first.

    The first above is the community there of each community, (K,) in 0..K₁-1; the next, of each of
    these, (K₁,). Each below is (n,) in 0..: a community that is not divided is one there, too.
    """

    above: tuple[Labels, ...] = ()
    below: tuple[Labels, ...] = ()

    def ancestors(self, ids: Ids) -> Ids:
        """The id of the community on each level above that each community is part of, (L, K).

        Coarsest first. A community of communities has the smallest id of these: that of the oldest,
        so it lasts as long as that one is in it.

        ids: (K,) of the communities.
        """
        found = np.empty((len(self.above), len(ids)), np.int64)
        place = np.arange(len(ids), dtype=np.int32)
        for level, into in enumerate(self.above):
            place = into[place]
            smallest = np.full(int(into.max()) + 1, np.iinfo(np.int64).max)
            np.minimum.at(smallest, place, ids)
            found[len(self.above) - 1 - level] = smallest[place]
        return found


def levels_of(graph: LevelGraph, labels: Labels, wanted: Wanted, seed: int = 0) -> Levels:
    """The levels above and below the communities of a graph; none if they save no bits.

    labels: (n,), 0..K-1, none empty.
    """
    if wanted == "none" or not len(labels):
        return Levels()
    below = _levels_below(graph, labels, seed) if wanted == "all" else ()
    return Levels(_levels_above(graph, labels), below)


def _levels_above(graph: LevelGraph, labels: Labels) -> tuple[Labels, ...]:
    """Communities of communities, while that saves bits.

    Communities are so few, and have so many edges, that uniting the best of them one by one finds
    nearly what a search finds, in a tenth of its time (docs/levels.md).
    """
    above: list[Labels] = []
    while (between := _between(graph, labels)).n_edges:
        found = agglomerate(between, np.arange(between.n_nodes, dtype=np.int32))
        if measured(between, found).bits >= 0:
            break
        above.append(found)
        labels = found[labels]
    return tuple(above)


def _levels_below(graph: LevelGraph, labels: Labels, seed: int) -> tuple[Labels, ...]:
    below: list[Labels] = []
    undivided = np.zeros(len(labels), np.bool_)
    while True:
        labels, undivided = _divided(graph, labels, undivided, seed)
        if undivided.all():
            return tuple(below)
        below.append(labels)


def _divided(
    graph: LevelGraph, labels: Labels, undivided: NDArray[np.bool_], seed: int
) -> tuple[Labels, NDArray[np.bool_]]:
    """Communities inside these, (n,), and which nodes are in one that is not divided."""
    members, starts = members_of(labels, int(labels.max()) + 1)
    undivided, parts, n_parts = undivided.copy(), np.empty_like(labels), 0
    for nodes in np.split(members.astype(np.int64), starts[1:-1]):
        found = None
        if not undivided[nodes[0]]:
            found = _communities(level_of(entries_at(graph, nodes)), seed)
        undivided[nodes] = found is None
        parts[nodes] = n_parts + (0 if found is None else found)
        n_parts += 1 if found is None else int(found.max()) + 1
    return compact(parts)[0], undivided


def _communities(graph: LevelGraph, seed: int) -> Labels | None:
    """The communities of a graph, (n,); None if they do not shorten its description."""
    if not graph.n_edges:
        return None
    found = found_exactly(graph, _SEARCH, None, np.random.default_rng(seed)).labels
    return found if measured(graph, found).bits < 0 else None


def _between(graph: LevelGraph, labels: Labels) -> LevelGraph:
    """The graph of communities with the edges between them: each counts, as the weight of one."""
    k = int(labels.max()) + 1
    coarse = coarsen(graph, labels, k)
    rows = csr_array((coarse.weights, coarse.indices, coarse.indptr), (k, k))
    rows.sort_indices()
    return level_of(rows_of(rows))._replace(n_edges=float(coarse.weights.sum() / 2))
