"""Random graphs with the degrees of a given graph: the null model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import LevelGraph
from stream_icd.graphs.compiled import compiled

SWAPS = 10
"""Swaps tried per edge; enough to make the result independent of the given graph."""


def rewired(graph: LevelGraph, rng: np.random.Generator) -> LevelGraph:
    """A random graph with the same degrees, by swapping the ends of pairs of edges.

    Swaps that would make a loop or a double edge are skipped (Maslov and Sneppen, "Specificity
    and stability in topology of protein networks", 2002). Edges keep their weights. The function
    needs a table of all pairs of nodes, so use it for small graphs only.
    """
    n_nodes = graph.n_nodes
    rows = np.repeat(np.arange(n_nodes, dtype=np.int32), np.diff(graph.indptr))
    upper = rows < graph.indices
    ends = np.stack([rows[upper], graph.indices[upper]], axis=1)  # (E, 2)
    n_edges = len(ends)
    pairs = rng.integers(0, n_edges, (SWAPS * n_edges, 2))
    crossed = rng.random(SWAPS * n_edges) < 0.5
    _swap(ends, pairs, crossed, np.zeros((n_nodes, n_nodes), np.bool_))
    both = np.concatenate([ends, ends[:, ::-1]]).T
    weights = np.tile(graph.weights[upper], 2)
    order = np.lexsort(both[::-1])
    rows, columns, weights = both[0][order], both[1][order], weights[order]
    indptr = np.searchsorted(rows, np.arange(n_nodes + 1)).astype(np.int32)
    strengths = np.bincount(rows, weights, n_nodes).astype(np.float64, copy=False)
    return LevelGraph(indptr, columns, weights, strengths, graph.total)


@compiled()
def _swap(
    ends: NDArray[np.int32],
    pairs: NDArray[np.int64],
    crossed: NDArray[np.bool_],
    linked: NDArray[np.bool_],
) -> None:
    """Swap the second ends of each pair of edges in turn; `ends` changes, `linked` starts empty."""
    for edge in range(len(ends)):
        linked[ends[edge, 0], ends[edge, 1]] = True
        linked[ends[edge, 1], ends[edge, 0]] = True
    for swap in range(len(pairs)):
        one, other = pairs[swap]
        a, b = ends[one]
        c, d = ends[other]
        if crossed[swap]:
            c, d = d, c
        if a in (c, d) or b in (c, d) or linked[a, d] or linked[c, b]:
            continue
        linked[a, b] = linked[b, a] = linked[c, d] = linked[d, c] = False
        linked[a, d] = linked[d, a] = linked[c, b] = linked[b, c] = True
        ends[one, 0], ends[one, 1] = a, d
        ends[other, 0], ends[other, 1] = c, b
