"""Splits: communities that the current edges divide into two or more."""

from __future__ import annotations

import numpy as np

from stream_icd.bp.description_length.agglomeration import agglomerate
from stream_icd.bp.multilevel.level_graph import Labels, LevelGraph, compact, within_groups
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

    Local moves cut each community into pieces, using only the edges inside it. Pieces of one
    community are united again while that shortens the description.

    The largest piece of each keeps its label; the others are numbered from n_communities on.
    """
    pieces, _ = compact(maximise_modularity(within_groups(graph, labels), resolution, rng))
    pieces = agglomerate(graph, pieces, parents=labels, mixing=mixing)
    sizes = np.bincount(pieces)
    names = np.empty(len(sizes), np.int32)
    names[pieces] = labels
    order = np.lexsort((-sizes, names))  # by community, the largest first, then as numbered
    others = order[np.diff(names[order], prepend=-1) == 0]
    names[others] = n_communities + np.arange(len(others), dtype=np.int32)
    return names[pieces]
