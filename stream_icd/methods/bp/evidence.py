"""Evidence: whether a graph has communities beyond those that chance produces.

In a graph without communities, a partition saves b bits in describing it
(`quality.partition`) at most once in 2^b times, since no code is short for many graphs
(Kraft's inequality). Communities may be too fine to save bits, so their best merger counts.

Below about 40 nodes, even clear communities hardly save the cost of their own description. There,
modularity far above that of random graphs with the same degrees is weak evidence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.core.arrays import AnyLabels, Floats, Labels, as_labels
from stream_icd.core.communities import EvidenceStrength
from stream_icd.core.compiled import compiled, uninterrupted
from stream_icd.core.errors import BadSettings
from stream_icd.core.symmetric import both_ways
from stream_icd.methods.bp.agglomeration import agglomerate
from stream_icd.methods.bp.level_graph import LevelGraph, Rows, coarsen, level_of, rows_of, summed
from stream_icd.methods.bp.level_graph import compact as renumbered
from stream_icd.methods.bp.likelihood import STRONG_BITS, groups_of, modularity_of
from stream_icd.methods.bp.modularity import maximise_modularity
from stream_icd.methods.bp.partition import measured
from stream_icd.methods.graphs.adjacency import among, linked_nodes

_FEW_EDGES = 200  # of a small graph, at most; the comparison takes 1 to 3 ms as a rule
_REWIRINGS, _MOST_REWIRINGS = 19, 200  # random graphs to compare a small graph with
_DEVIATIONS = 4.0  # standard deviations above chance for weak evidence in a small graph
_SURE = 2.0  # standard errors that end the comparison before `_MOST_REWIRINGS`
_SWAPS = 10  # tried per edge; enough to make the result independent of the given graph


class Evidence(NamedTuple):
    """The evidence that the graph has communities."""

    bits_saved: float  # per edge, by the communities or the best merger of them; 0 or above
    strength: EvidenceStrength


@uninterrupted()
def evidence_for(adjacency: csr_array, communities: AnyLabels) -> Evidence:
    """The evidence for a graph's communities; time and memory are O(N + E).

    The same graph and communities always have the same evidence: it depends on no seed.

    Nodes without edges are left out: they change nothing, and a message of kilobytes declares
    hundreds of thousands.

    adjacency: canonical (`as_adjacency`); communities: integer labels (n,), any values.

    Raises `BadSettings` if there is another number of communities than of nodes.

    >>> clique = np.ones((9, 9)) - np.eye(9)
    >>> four = csr_array(np.kron(np.eye(4), clique))
    >>> evidence_for(four, np.arange(36) // 9).strength
    'strong'
    >>> evidence_for(csr_array(clique), np.arange(9) // 3)
    Evidence(bits_saved=0.0, strength='none')
    """
    communities = np.asarray(communities)
    if communities.shape != adjacency.shape[:1]:
        raise BadSettings(
            f"{adjacency.shape[0]} nodes need one community each; got {communities.shape}"
        )
    if not adjacency.nnz:
        return Evidence(0.0, "none")
    linked = linked_nodes(adjacency)
    graph = level_of(rows_of(among(adjacency, linked)).comparable())
    labels = as_labels(communities[linked]).astype(np.int32)
    level = coarsen(graph, *renumbered(labels))  # so the edges are counted once
    pieces = np.arange(level.n_nodes, dtype=np.int32)
    merged = agglomerate(level, pieces)
    saved = max(0.0, -measured(level, merged).bits)
    if merged.max() < pieces.max():
        saved = max(saved, -measured(level, pieces).bits)
    n_edges = adjacency.nnz / 2
    if saved * n_edges >= STRONG_BITS:
        return Evidence(saved, "strong")
    if saved > 0 or (n_edges <= _FEW_EDGES and _is_above_chance(graph, labels)):
        return Evidence(saved, "weak")
    return Evidence(saved, "none")


def _is_above_chance(graph: LevelGraph, labels: Labels) -> bool:
    """Whether modularity is far above that of graphs with the same degrees, rewired at random.

    A few of these give the threshold, mean + d standard deviations, with a standard error of
    √((1 + d²/2) / n) standard deviations. If the modularity is closer to it, more are drawn:
    otherwise chance would decide about graphs such as the karate club.
    """
    if not labels.any():
        return False
    rng = np.random.default_rng(0)
    found, by_chance = modularity_of(graph, labels), np.empty(0)
    above = error = 0.0
    while not len(by_chance) or (abs(above) < _SURE * error and len(by_chance) < _MOST_REWIRINGS):
        by_chance = np.append(by_chance, _modularities_by_chance(graph, rng, _REWIRINGS))
        spread = float(np.std(by_chance, ddof=1))
        above = found - float(np.mean(by_chance)) - _DEVIATIONS * spread
        error = spread * math.sqrt((1 + _DEVIATIONS**2 / 2) / len(by_chance))
    return above > 0


def _modularities_by_chance(graph: LevelGraph, rng: np.random.Generator, count: int) -> Floats:
    """The modularity of this many rewired graphs, (count,), each as high as a search finds it.

    One search finds all: their union at resolution `count` has the gains of each at resolution 1,
    and no community is of two of them. A search for each would take six times as long.
    """
    union = _rewired(graph, rng, count)
    labels = maximise_modularity(union, float(count), rng)
    within, volumes = groups_of(union, labels, int(labels.max()) + 1)
    rewiring = np.empty(len(within), np.int32)
    rewiring[labels] = np.arange(union.n_nodes) // graph.n_nodes
    gains = 2 * within / graph.total - (volumes / graph.total) ** 2
    return summed(gains, rewiring, count)


def _rewired(graph: LevelGraph, rng: np.random.Generator, count: int = 1) -> LevelGraph:
    """The union of random graphs with the same degrees, by swapping the ends of pairs of edges.

    Node v of graph i is node i n + v of the union. Swaps that would make a loop or a double edge
    are skipped (Maslov and Sneppen, "Specificity and stability in topology of protein networks",
    2002). Edges keep their weights. The function needs a table of all pairs of nodes, so use it for
    small graphs only.
    """
    n_nodes = graph.n_nodes
    rows = np.repeat(np.arange(n_nodes, dtype=np.int32), np.diff(graph.indptr))
    upper = rows < graph.indices
    ends = np.tile(np.stack([rows[upper], graph.indices[upper]], axis=1), (count, 1, 1))
    n_edges = ends.shape[1]
    pairs = rng.integers(0, n_edges, (count, _SWAPS * n_edges, 2), np.int32)
    crossed = rng.random((count, _SWAPS * n_edges)) < 0.5
    for graph_ends, graph_pairs, graph_crossed in zip(ends, pairs, crossed, strict=True):
        _swap(graph_ends, graph_pairs, graph_crossed, np.zeros((n_nodes, n_nodes), np.bool_))
    ends += np.arange(count, dtype=np.int32)[:, None, None] * n_nodes
    ends.sort(axis=2)
    row, column = ends.reshape(-1, 2).T
    order = np.lexsort([column, row])
    weights = np.tile(graph.weights[upper], count)[order]
    values, columns, indptr = both_ways(row[order], column[order], weights, count * n_nodes)
    return level_of(Rows(indptr, columns, values))


@compiled()
def _swap(
    ends: NDArray[np.int32],
    pairs: NDArray[np.int32],
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
