"""Evidence: whether a graph has communities beyond those that chance produces.

Every graph has partitions of some modularity, even a random one. But in a graph without
communities, a partition saves b bits in describing it (`quality.description_length`) at most once
in 2^b times, since no code is short for many graphs (Kraft's inequality). The communities found may
be too fine to save bits, so the score is the best saving after merging some of them.

Below about 40 nodes, even clear communities hardly save the cost of their own description. So in a
small graph, where it is cheap, modularity far above that of random graphs with the same degrees is
weak evidence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from stream_icd.arrays import AnyLabels, compact
from stream_icd.bp.description_length.agglomeration import agglomerate
from stream_icd.bp.description_length.partition import coarse_of, measured
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, finest_level
from stream_icd.bp.multilevel.modularity import maximise_modularity
from stream_icd.bp.null_model import rewired
from stream_icd.bp.planted_partition.likelihood import STRONG_BITS, modularity_of
from stream_icd.communities import EvidenceStrength
from stream_icd.graphs.adjacency import among, linked_nodes
from stream_icd.graphs.weights import comparable

FEW_EDGES = 200
"""Maximum number of edges of a small graph; the comparison takes 5 to 10 ms."""

REWIRINGS = 19
"""Number of random graphs to compare a small graph with."""

DEVIATIONS = 4.0
"""Standard deviations above chance for weak evidence in a small graph."""


class Evidence(NamedTuple):
    """The evidence that the graph has communities.

    bits_saved: bits per edge that the communities, or the best merger of them, save in describing
        the graph; 0 or above.
    strength: "strong", "weak" or "none".
    """

    bits_saved: float
    strength: EvidenceStrength


def evidence_for(adjacency: csr_array, communities: AnyLabels, seed: int = 0) -> Evidence:
    """The evidence for a graph's communities; time and memory are O(N + E).

    Nodes without edges are left out: they change nothing, and a message of kilobytes declares
    hundreds of thousands.

    adjacency: canonical (`as_adjacency`); communities: integer labels (n,), any values.

    >>> clique = np.ones((9, 9)) - np.eye(9)
    >>> four = csr_array(np.kron(np.eye(4), clique))
    >>> evidence_for(four, np.arange(36) // 9).strength
    'strong'
    >>> evidence_for(csr_array(clique), np.arange(9) // 3)
    Evidence(bits_saved=0.0, strength='none')
    """
    if not adjacency.nnz:
        return Evidence(0.0, "none")
    linked = linked_nodes(adjacency)
    graph = finest_level(comparable(among(adjacency, linked)))
    labels = compact(communities[linked]).astype(np.int32)
    level = coarse_of(graph, labels)  # so the edges are counted once
    pieces = np.arange(level.graph.n_nodes, dtype=np.int32)
    merged = agglomerate(level.graph, pieces, n_linked=level.n_linked)
    saved = max(0.0, -measured(level, merged).bits)
    if merged.max() < pieces.max():
        saved = max(saved, -measured(level, pieces).bits)
    n_edges = adjacency.nnz / 2
    if saved * n_edges >= STRONG_BITS:
        return Evidence(saved, "strong")
    if saved > 0 or (n_edges <= FEW_EDGES and _is_above_chance(graph, labels, seed)):
        return Evidence(saved, "weak")
    return Evidence(saved, "none")


def _is_above_chance(graph: LevelGraph, labels: Labels, seed: int) -> bool:
    """Whether modularity is far above that of graphs with the same degrees, rewired at random."""
    if not labels.any():
        return False
    rng = np.random.default_rng(seed)
    by_chance = []
    for _ in range(REWIRINGS):
        random = rewired(graph, rng)
        by_chance.append(modularity_of(random, maximise_modularity(random, 1.0, rng)))
    spread = np.std(by_chance, ddof=1)
    threshold = np.mean(by_chance) + DEVIATIONS * spread
    return bool(modularity_of(graph, labels) > threshold)
