"""What has changed since the window before: which communities are which, and who moved.

The detector alone knows the edges and the communities before at once. So it says, in pairs of
stable ids, how strongly the edges speak for moves of nodes; a tracker adds them up for its events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from stream_icd.core.arrays import NOBODY, Floats, Ids, Labels
from stream_icd.core.node_ids import places
from stream_icd.methods.bp.level_graph import LevelGraph, coarsen, finest_level
from stream_icd.methods.bp.likelihood import groups_of
from stream_icd.methods.bp.partition import majority, match_labels
from stream_icd.methods.quality.partition import Described

FEWEST_MOVED = 3
"""Fewer nodes that move together are not told: most of them are."""


def ids_for(labels: Labels, before: Labels, ids_before: Ids, next_id: int) -> tuple[Ids, int]:
    """Return an id for each community, `(K,)`, and the first id not used yet.

    labels: of each node, in 0..K-1 or `NOBODY`.
    before: the labels of the same nodes in the last window, places in `ids_before`.
    """
    n_labels, n_before = int(labels.max(initial=NOBODY)) + 1, len(ids_before)
    names = match_labels(labels, before, n_labels, n_before)
    n_new = int(np.count_nonzero(names >= n_before))
    ids: Ids = np.append(ids_before, next_id + np.arange(n_new))[names]
    return ids, next_id + n_new


def replaced_ids(labels: Labels, ids: Ids, before: Labels, ids_before: Ids) -> Ids:
    """Return the ids that ended, `(m, 2)`, ascending, each with the id it is now part of.

    That is the community with more than half of its nodes; `NOBODY` if there is none.

    labels: of each node, places in `ids`.
    before: the labels that they had, places in `ids_before`; `NOBODY` if they are new.
    """
    n_before = len(ids_before)
    sizes = np.bincount(before[before >= 0], minlength=n_before)
    gone = set(ids_before[sizes > 0].tolist()).difference(ids.tolist())
    if not gone:  # as in most windows
        return np.empty((0, 2), np.int64)
    ended = np.isin(ids_before, list(gone))
    into = majority(before, labels, n_before)[ended]
    pairs = np.stack([ids_before[ended], np.append(ids, NOBODY)[into]], axis=1)
    return pairs[np.argsort(pairs[:, 0])]


class Moved(NamedTuple):
    """Nodes that changed community together, and what the edges say about it.

    pairs: `(m, 2)` int64, ascending: id before and id now. -1 before: the community is new.
    bits: `(m,)` how many bits more the edges of the window need if these nodes were still where
        they were: in the community with the id before, or if that has ended, in one of their own.
        For a new community: if it were one with the community that it is linked to most.
    """

    pairs: Ids
    bits: Floats


def moved(adjacency: csr_array, labels: Labels, ids: Ids, ids_before: Ids, next_id: int) -> Moved:
    """Return which nodes changed community together, and by how many bits the edges confirm it.

    Only the edges of the window count, described as by `description_length`, except that the mixing
    of the communities as they are describes the alternative too.

    labels: community of each node, `(n,)` in 0..K-1; ids: stable id of each community, `(K,)`.
    ids_before: id of each node's community in the last window, `(n,)`; -1 if it had none.
    next_id: the first id that was not used before.
    """
    k, linked = len(ids), adjacency.indptr[1:] > adjacency.indptr[:-1]
    changed = np.flatnonzero(linked & (ids_before != NOBODY) & (ids_before != ids[labels]))
    old_ids, old = np.unique(ids_before[changed], return_inverse=True)  # ids may be large
    moves = old * k + labels[changed]
    keys, group, sizes = np.unique(moves, return_inverse=True, return_counts=True)
    together, new = sizes >= FEWEST_MOVED, np.flatnonzero(ids >= next_id)
    if not (adjacency.nnz and (together.any() or len(new))):  # as in most windows
        return Moved(np.empty((0, 2), np.int64), np.empty(0))
    graph, of_node = finest_level(adjacency), np.full(len(labels), NOBODY)
    of_node[changed] = np.where(together, np.cumsum(together) - 1, NOBODY)[group]
    left, now = np.divmod(keys[together], k)
    before = old_ids[left]
    there = places(pa.array(before), pa.array(ids))  # where they would be; NOBODY if it has ended
    volume, inside, to_now, to_old = _edges_of(adjacency, of_node, labels, now, there)
    within, volumes = groups_of(graph, labels, k)
    n_linked = np.bincount(labels[linked], minlength=k)
    window = Described(np.stack([n_linked, volumes, 2 * within]), adjacency.nnz / 2)
    totals = np.stack([sizes[together], volume, inside])
    stayed = window.lost_without_move(totals, to_now - inside, to_old, now, there)
    new = new[n_linked[new] > 0]
    united = window.lost_in_union(*_neighbours(graph, labels, new, k))
    left = np.append(before, np.full(len(new), NOBODY))
    pairs = np.stack([left, ids[np.append(now, new)]])
    order, bits = np.lexsort(pairs[::-1]), np.round(np.concatenate([stayed, united]), 3)
    return Moved(pairs.T[order], bits[order])


def _edges_of(
    adjacency: csr_array, of_node: Ids, labels: Labels, now: Ids, there: Ids
) -> list[Floats]:
    """Return the weight of all edges of each group, inside, to `now` and to `there`, `(m,)` each.

    of_node: group of each node, `(n,)`; `NOBODY` for most.
    """
    members, m = np.flatnonzero(of_node >= 0), len(now)
    group = csr_array((np.ones(len(members)), (of_node[members], members)), (m, len(of_node)))
    edges = (group @ adjacency).tocoo()  # (m, n)
    of, to = edges.coords
    chosen = (of >= 0, of_node[to] == of, labels[to] == now[of], labels[to] == there[of])
    return [np.bincount(of[some], edges.data[some], m).astype(np.float64) for some in chosen]


def _neighbours(graph: LevelGraph, labels: Labels, new: Ids, k: int) -> tuple[Ids, Ids, Floats]:
    """Return each new community, that to which it has the most links, and these links, `(m,)`."""
    coarse = coarsen(graph, labels, k)
    rows, linked = np.repeat(np.arange(k), np.diff(coarse.indptr)), np.diff(coarse.indptr) > 0
    order = np.lexsort((coarse.indices, coarse.weights, rows))
    last = order[coarse.indptr[1:][linked] - 1]
    best, links = np.full(k, NOBODY), np.zeros(k)
    best[linked], links[linked] = coarse.indices[last], coarse.weights[last]
    return new, best[new], links[new]
