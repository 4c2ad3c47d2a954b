"""Splits: communities that the current edges divide into two or more."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.description_length.agglomeration import agglomerate
from stream_icd.bp.multilevel.level_graph import (
    Labels,
    LevelGraph,
    coarsen,
    compact,
    within_groups,
)
from stream_icd.bp.multilevel.local_moves import connected_pieces
from stream_icd.bp.multilevel.modularity import maximise_modularity


def split_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
) -> Labels:
    """Split the communities 0..n_communities-1 if the edges support it: labels (n,).

    Each community is cut into well-linked pieces, which are united by modularity, then further
    while that shortens the description.

    The largest piece of each keeps its label; the others are numbered from n_communities on.
    """
    visited = rng.permutation(graph.n_nodes).astype(np.int32)
    first, n_first = compact(connected_pieces(graph, labels, visited, resolution))
    parents = np.empty(n_first, np.int32)
    parents[first] = labels
    coarse = coarsen(graph, first, n_first)
    large = maximise_modularity(within_groups(coarse, parents), resolution, rng)
    n_linked = np.bincount(first, np.diff(graph.indptr) > 0, n_first).astype(np.float64)
    pieces = agglomerate(coarse, compact(large)[0], parents, mixing, n_linked)[first]
    sizes = np.bincount(pieces)
    names = np.empty(len(sizes), np.int32)
    names[pieces] = labels
    order = np.lexsort((-sizes, names))  # by community, the largest first, then as numbered
    others = order[np.diff(names[order], prepend=-1) == 0]
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names[pieces]
