"""What has changed since the window before: which communities are which, and who moved.

The detector says how strongly the edges of a window speak for moves of nodes, since it alone knows
the edges and the communities before at once. It tells it in pairs of stable ids, so that a tracker
can add them up for the events that it finds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.arrays import Floats, Ids, Labels
from stream_icd.bp.level_graph import LevelGraph, coarsen, finest_level
from stream_icd.bp.likelihood import groups_of
from stream_icd.bp.posterior import NOBODY, majority, match_labels
from stream_icd.node_ids import places
from stream_icd.quality.description_length import Described

FEWEST = 3
"""Fewer nodes that move together are not told: most of them are."""


def ids_for(labels: Labels, before: Labels, ids_before: Ids, next_id: int) -> tuple[Ids, int]:
    """Return an id for each community, `(K,)`, and the first id not used yet.

    labels: of each node, in 0..K-1 or `NOBODY`.
    before: the labels of the same nodes in the last window, places in `ids_before`.
    """
    n_labels = int(labels.max(initial=NOBODY)) + 1
    names = match_labels(labels, before, n_labels, len(ids_before))
    ids = np.append(ids_before, NOBODY)[names]  # [-1] is NOBODY's
    new = np.flatnonzero(names == NOBODY)
    ids[new] = next_id + np.arange(len(new))
    return ids, next_id + len(new)


def replaced_ids(labels: Labels, ids: Ids, before: Labels, ids_before: Ids) -> Ids:
    """Return the ids that ended, `(m, 2)`, ascending, each with the id it is now part of.

    That is the community with more than half of its nodes; `NOBODY` if there is none.

    labels: of each node, places in `ids`.
    before: the labels that they had, places in `ids_before`; `NOBODY` if they are new.
    """
    n_before = len(ids_before)
    sizes = np.bincount(before[before >= 0], minlength=n_before)
    ended = (sizes > 0) & ~np.isin(ids_before, ids)
    into = majority(before, labels, n_before)[ended]
    found = np.stack([ids_before[ended], np.append(ids, NOBODY)[into]], axis=1)
    return found[np.argsort(found[:, 0])]


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
    here = labels.astype(np.int64)
    groups, new = _groups(adjacency, here, ids_before, ids), np.flatnonzero(ids >= next_id)
    if not (adjacency.nnz and (len(groups.now) or len(new))):  # as in most windows
        return Moved(np.empty((0, 2), np.int64), np.empty(0))
    graph = finest_level(adjacency)
    within, volumes = groups_of(graph, labels, len(ids))
    linked = np.bincount(labels[np.diff(adjacency.indptr) > 0], minlength=len(ids))
    window = Described(np.stack([linked, volumes, 2 * within]), adjacency.nnz / 2)
    stayed = window.lost_without_move(*_moves(adjacency, here, groups))
    new = new[window.sums[0][new] > 0]
    united = window.lost_in_union(*_neighbours(graph, labels, new, len(ids)))
    left = np.concatenate([groups.before, np.full(len(new), NOBODY)])
    pairs = np.stack([left, ids[np.concatenate([groups.now, new])]])
    order = np.lexsort(pairs[::-1])
    bits = np.round(np.concatenate([stayed, united]), 3)
    return Moved(pairs.T[order], bits[order])


class _Groups(NamedTuple):
    """Nodes that moved from one community to another; `(m,)` each, but for the first.

    of_node: group of each node, `(n,)`; `NOBODY` for most.
    before: id of the community that they left.
    now, old: communities where they are, and where they would be; `NOBODY` if it has ended.
    """

    of_node: Ids
    before: Ids
    now: Ids
    old: Ids


def _groups(adjacency: csr_array, here: Ids, before: Ids, ids: Ids) -> _Groups:
    has_edges = np.diff(adjacency.indptr) > 0
    changed = np.flatnonzero(has_edges & (before != NOBODY) & (before != ids[here]))
    old_ids, old = np.unique(before[changed], return_inverse=True)  # ids may be large
    moves = old * len(ids) + here[changed]
    keys, group, sizes = np.unique(moves, return_inverse=True, return_counts=True)
    told = sizes >= FEWEST
    number = np.where(told, np.cumsum(told) - 1, NOBODY)
    of_node = np.full(len(here), NOBODY)
    of_node[changed] = number[group]
    left, now = np.divmod(keys[told], max(len(ids), 1))
    return _Groups(of_node, old_ids[left], now, places(pa.array(old_ids[left]), pa.array(ids)))


def _moves(
    adjacency: csr_array, here: Ids, groups: _Groups
) -> tuple[Floats, Floats, Floats, Ids, Ids]:
    """Return sums over each group, to where it is and to where it was; and these two, `(m,)`."""
    rows = np.flatnonzero(groups.of_node >= 0)
    starts, ends = adjacency.indptr[rows], adjacency.indptr[rows + 1]
    before = np.cumsum(ends - starts) - (ends - starts)  # edges of the nodes before each
    entries = np.repeat(starts - before, ends - starts) + np.arange((ends - starts).sum())
    of, m = np.repeat(groups.of_node[rows], ends - starts), len(groups.now)
    to, weights = adjacency.indices[entries], adjacency.data[entries]

    def total(chosen: NDArray[np.bool_]) -> Floats:
        return np.bincount(of[chosen], weights[chosen], minlength=m).astype(np.float64)

    inside = total(groups.of_node[to] == of)
    sizes = np.bincount(groups.of_node[rows], minlength=m)
    group = np.stack([sizes, total(np.ones(len(of), np.bool_)), inside])
    to_now, to_old = (total(here[to] == place[of]) for place in (groups.now, groups.old))
    return group, to_now - inside, to_old, groups.now, groups.old


def _neighbours(graph: LevelGraph, labels: Labels, new: Ids, k: int) -> tuple[Ids, Ids, Floats]:
    """Return each new community, that to which it has the most links, and these links, `(m,)`."""
    coarse = coarsen(graph, labels, k)
    rows, linked = np.repeat(np.arange(k), np.diff(coarse.indptr)), np.diff(coarse.indptr) > 0
    order = np.lexsort((coarse.indices, coarse.weights, rows))
    last = order[coarse.indptr[1:][linked] - 1]
    best, links = np.full(k, NOBODY), np.zeros(k)
    best[linked], links[linked] = coarse.indices[last], coarse.weights[last]
    return new, best[new], links[new]
