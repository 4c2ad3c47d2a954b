"""Communities of modularity that the current edges have parted, though their past holds them.

Modularity alone does not see it: two unlinked halves of a small community cost it next to nothing.
So a part of a community is tested as a whole community is (`breaks`): are its edges to the rest
nearer to chance than to half of those within one community?
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_icd.bp.breaks import DOUBT, STAYING
from stream_icd.bp.level_graph import Labels, LevelGraph, compact, within_groups
from stream_icd.bp.lift import Floats, groups_of
from stream_icd.bp.multilevel import maximise_modularity
from stream_icd.graphs.compiled import compiled


def parted_communities(
    graph: LevelGraph,
    labels: Labels,
    n_communities: int,
    resolution: float,
    mixing: float,
    rng: np.random.Generator,
) -> Labels:
    """Separate the parts of communities 0..n_communities-1 that have left the rest: labels (n,).

    labels: (n,), 0..n_communities-1; some may have no node.

    The largest part of each keeps its label; those that left are numbered from n_communities on.
    """
    inside = within_groups(graph, labels)
    pieces, n_pieces = compact(maximise_modularity(inside, resolution, rng))
    if n_pieces == np.count_nonzero(np.bincount(labels)):  # labels without nodes do not count
        return labels
    parents = np.empty(n_pieces, np.int32)
    parents[pieces] = labels
    of_piece = groups_of(graph, pieces, n_pieces)
    volumes = groups_of(graph, labels, n_communities).volumes[parents]
    rest = volumes - of_piece.volumes
    links = np.bincount(pieces, _strengths(inside), n_pieces) - 2 * of_piece.within
    left = _has_left(links, of_piece.volumes, rest, volumes, graph.total, mixing)
    if not left.any():
        return labels
    left &= ~_largest(parents, of_piece.sizes)
    names = parents.copy()
    names[left] = n_communities + np.arange(left.sum(), dtype=np.int32)
    parted: Labels = names[pieces]
    return parted


@compiled()
def _strengths(inside: LevelGraph) -> Floats:
    """The weight of each node's edges within its community, (n,)."""
    strengths = np.zeros(len(inside.strengths))
    for node in range(len(strengths)):
        for entry in range(inside.indptr[node], inside.indptr[node + 1]):
            strengths[node] += inside.weights[entry]
    return strengths


def _has_left(
    links: Floats, volume: Floats, rest: Floats, whole: Floats, total: float, mixing: float
) -> NDArray[np.bool_]:
    chance = volume * rest / max(total, 1e-300)
    alive = chance + STAYING * (1 - mixing) * volume * rest / np.maximum(whole, 1e-300)
    known = chance > 0
    evidence = np.zeros(len(links))
    evidence[known] = links[known] * np.log(alive[known] / chance[known])
    evidence -= alive - chance
    left: NDArray[np.bool_] = evidence < -DOUBT
    return left


def _largest(parents: Labels, sizes: Floats) -> NDArray[np.bool_]:
    order = np.lexsort((-sizes, parents))
    first = np.diff(parents[order], prepend=-1) > 0
    largest = np.zeros(len(parents), np.bool_)
    largest[order[first]] = True
    return largest
