"""A partition with the measures by which partitions of one graph are compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, compact
from stream_icd.graphs.compiled import compiled
from stream_icd.quality.description_length import bits_per_edge

Floats = NDArray[np.float64]


class Partition(NamedTuple):
    """A partition and its measures.

    labels: (n,) int32, 0..K-1, none empty.
    n_communities: K.
    n_edges: E.
    bits: `quality.description_length`, bits per edge.
    modularity: `quality.modularity`.
    mixing: μ, the fraction of the edge weight between communities.
    """

    labels: Labels
    n_communities: int
    n_edges: float
    bits: float
    modularity: float
    mixing: float


def measured(graph: LevelGraph, labels: Labels) -> Partition:
    """The measures of a partition, several times as fast as from the adjacency; O(E).

    labels: (n,), not negative; some of 0..max may be unused.
    """
    labels, k = compact(labels)
    volumes, within, sizes = _sums(graph, labels, k)
    n_edges = len(graph.indices) / 2
    if n_edges == 0:
        return Partition(labels, k, n_edges, 0.0, 0.0, 0.0)
    bits = bits_per_edge(volumes, within, sizes, n_edges)
    modularity = (within / graph.total - (volumes / graph.total) ** 2).sum()
    mixing = max(1 - within.sum() / graph.total, 0.0)
    return Partition(labels, k, n_edges, bits, float(modularity), float(mixing))


@compiled()
def _sums(
    graph: LevelGraph, labels: Labels, n_communities: int
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Volume, weight inside (from both ends) and nodes with edges of each community, all (K,)."""
    volumes, within = np.zeros(n_communities), np.zeros(n_communities)
    sizes = np.zeros(n_communities, np.int64)
    for node, label in enumerate(labels):
        first, last = graph.indptr[node], graph.indptr[node + 1]
        volumes[label] += graph.strengths[node]
        sizes[label] += first < last
        for entry in range(first, last):
            if labels[graph.indices[entry]] == label:
                within[label] += graph.weights[entry]
    return volumes, within, sizes
