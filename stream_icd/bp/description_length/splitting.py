"""Splits: communities that the current edges divide into two or more."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.description_length.agglomeration import agglomerate
from stream_icd.bp.description_length.partition import Coarse
from stream_icd.bp.multilevel.level_graph import Labels, coarsen, compact, summed, within_groups
from stream_icd.bp.multilevel.local_moves import connected_pieces
from stream_icd.bp.multilevel.modularity import maximise_modularity


def split_communities(
    level: Coarse,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
    coded: bool = True,
    threads: int = 1,
) -> Labels:
    """Split the communities 0..n_communities-1 if the edges support it: labels (n,).

    Each community is cut into well-linked pieces of such pieces, which are united while that
    shortens the description; or, unless it is `coded`, by modularity and then while the likelihood
    gains.

    The largest piece of each keeps its label; the others are numbered from n_communities on.
    """
    visited = rng.permutation(level.graph.n_nodes).astype(np.int32)
    pieces = connected_pieces(level.graph, labels, visited, resolution, threads)
    first, n_first = compact(pieces)
    parents = np.empty(n_first, np.int32)
    parents[first] = labels
    coarse = coarsen(level.graph, first, n_first, threads)
    if coded:
        visited = rng.permutation(n_first).astype(np.int32)
        united = connected_pieces(coarse, parents, visited, resolution, threads)
    else:
        united = maximise_modularity(within_groups(coarse, parents), resolution, rng)
    n_linked = summed(level.n_linked, first, n_first)
    pieces = agglomerate(coarse, united, parents, mixing, n_linked, coded)[first]
    sizes = np.bincount(pieces)
    names = np.empty(len(sizes), np.int32)
    names[pieces] = labels
    order = np.lexsort((-sizes, names))  # by community, the largest first, then as numbered
    others = order[np.diff(names[order], prepend=-1) == 0]
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names[pieces]
