"""The identity of each community of a window: from the last window, an earlier one, or new.

The tracker takes the ids of a detector with memory as they are, wherever they continue those of the
tracked windows. They do not if the windows before were detected without memory, or if the detector
has lost its memory and counts from 0 again; then communities are matched by their nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import NOBODY, Floats, Ids
from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.node_ids import places
from stream_icd.core.snapshot import Window
from stream_icd.core.times import missed_windows
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.tracking import packed

_MOST_CELLS = 1 << 24
"""Pairs of communities in a table of weights, at most: 128 MiB, half a second."""


@dataclass(frozen=True, slots=True, eq=False)
class NodePartition:
    """Nodes in ascending order, and the community of each."""

    nodes: pa.Array
    labels: Ids  # (n_nodes,) in 0..K-1
    names: Ids  # (K,) the original number of each community
    sizes: Ids  # (K,) members of each

    @classmethod
    def by_first_node(cls, nodes: pa.Array, labels: NDArray[np.int32]) -> NodePartition:
        """Number communities by their smallest node, independent of labels and order."""
        nodes, ordered = _ascending(nodes, labels)
        names, first, inverse, sizes = np.unique(
            ordered, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return cls(nodes, rank[inverse], names[order], sizes[order])

    @classmethod
    def by_name(cls, nodes: pa.Array, communities: Ids) -> NodePartition:
        """Number communities in the order of their stable ids."""
        nodes, ordered = _ascending(nodes, communities)
        if ordered.max(initial=0) > 10 * len(ordered):
            names, inverse, sizes = np.unique(ordered, return_inverse=True, return_counts=True)
            return cls(nodes, inverse, names, sizes)
        counts = np.bincount(ordered)  # ten times faster, if there are not too many unused ids
        names = np.flatnonzero(counts)
        place = np.cumsum(counts > 0) - 1
        return cls(nodes, place[ordered], names, counts[names])

    @classmethod
    def unpacked(cls, members: bytes) -> NodePartition:
        """Return the communities of a packed window, named by their stable ids."""
        return cls.by_name(*packed.unpacked(members))

    @property
    def n_communities(self) -> int:
        return len(self.names)

    def shared_nodes(self, new: NodePartition) -> tuple[Ids, Ids]:
        """Return the positions of the shared nodes here and in `new`, `(n_shared,)` each.

        Integer ids and string ids are never equal.
        """
        at = places(new.nodes, self.nodes)
        in_new = np.flatnonzero(at >= 0)
        return at[in_new], in_new

    def agreement(self, other: NodePartition) -> float | None:
        """Return the NMI of two partitions on their common nodes; None if they have none."""
        rows, columns = other.shared_nodes(self)
        return nmi(other.labels[rows], self.labels[columns]) if len(rows) else None

    def overlaps(self, new: NodePartition) -> _Overlaps:
        """Compare two windows in O(n + pairs); there is at most one pair per node."""
        rows, columns = self.shared_nodes(new)
        before, after = self.labels[rows], new.labels[columns]
        shape = (self.n_communities, new.n_communities)
        counts = coo_array((np.ones(len(rows), np.int64), (before, after)), shape).tocsr().tocoo()
        return _Overlaps(
            old=counts.row.astype(np.int64),
            new=counts.col.astype(np.int64),
            shared=counts.data,
            old_sizes=np.bincount(before, minlength=shape[0]),
            new_sizes=np.bincount(after, minlength=shape[1]),
        )

    def no_overlaps(self, new: NodePartition) -> _Overlaps:
        """Return the overlaps of two windows that have no node in common."""
        none = np.empty(0, np.int64)
        return _Overlaps(none, none, none, np.zeros_like(self.names), np.zeros_like(new.names))


@dataclass(frozen=True, slots=True, eq=False)
class _Overlaps:
    """The pairs of communities that share nodes, counted on the nodes present in both windows."""

    old: Ids  # (n_pairs,) the first community of each
    new: Ids  # (n_pairs,) the second
    shared: Ids  # (n_pairs,) number of nodes they share, at least 1
    old_sizes: Ids  # (K,) number of each community's nodes that are in both windows
    new_sizes: Ids

    @property
    def jaccard(self) -> Floats:
        """|a ∩ b| / |a ∪ b| of each pair."""
        return self.shared / (self.old_sizes[self.old] + self.new_sizes[self.new] - self.shared)

    def matched(self, threshold: float) -> Ids:
        """Return the old community that matches each new one, `(K_new,)`, or `NOBODY`.

        One to one, with the largest sum of Jaccard indices among pairs of at least `threshold`
        (Greene et al. 2010, section 3). A community has at most 1 / threshold partners of that
        kind, so they fall into small pieces, each matched by the Hungarian method; one of more than
        `_MOST_CELLS` possible pairs by the best pairs first.
        """
        candidates = np.flatnonzero(self.jaccard >= threshold)
        n_old, n_new = len(self.old_sizes), len(self.new_sizes)
        partners = np.full(n_new, NOBODY, np.int64)
        old, new = self.old[candidates], self.new[candidates]
        weights = self.jaccard[candidates]
        for pairs in _pieces(old, n_old + new, n_old + n_new):
            a, b = _best(old[pairs], new[pairs], weights[pairs])
            partners[b] = a
        return partners


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """An earlier window, compared with a new one."""

    partition: NodePartition  # by stable id
    between: _Overlaps  # with the communities of the new window
    away: int  # number of windows between the two

    @property
    def ids(self) -> Ids:
        return self.partition.names


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """Stable ids of the communities of a window, and where each was last seen; `(K,)` each.

    For a new community `overlap` is NaN and `size_before` is 0. `reappeared` is true for a
    community that was absent from the last window but is known from before, or whose detector
    says so: then `size_before` is 0, and it was absent for at least `away` windows.
    """

    partition: NodePartition  # the communities
    ids: Ids
    overlap: Floats
    size_before: Ids
    away: Ids
    reappeared: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class TrackedHistory:
    """Tracked windows, newest first, each compared with a new one when it is first needed.

    `absence`: windows further away share nothing with it. None: its communities claim ids that
    continue those of the tracked windows, however far away these are.
    """

    recent: Sequence[CommunityEvents]  # tracked windows of the graph, oldest first
    window: Window  # the new one
    partition: NodePartition  # its communities
    absence: int | None = None
    _fronts: dict[int, Front] = field(init=False, default_factory=dict)  # `replace` begins anew

    def __len__(self) -> int:
        return len(self.recent)

    def __getitem__(self, steps: int) -> Front:
        """Return the window that is `steps` windows before the last one."""
        if steps not in self._fronts:
            before = self.recent[-1 - steps]
            old = NodePartition.by_name(before.nodes, before.communities)
            away = max(steps, missed_windows(before.window, self.window))
            near = self.absence is None or away <= self.absence
            between = (old.overlaps if near else old.no_overlaps)(self.partition)
            self._fronts[steps] = Front(old, between, away)
        return self._fronts[steps]

    @property
    def looked_back(self) -> Sequence[CommunityEvents]:
        """The windows that are asked where communities came from and went; empty: the last one.

        Where communities are matched by their nodes, errors of matching would add up.
        """
        return self.recent if self.absence is None else ()

    def claims(
        self, communities: Communities, first_id: int = 0, revised: CommunityEvents | None = None
    ) -> Ids | None:
        """Return the id that each community claims, `(K,)`; None: they do not continue the windows.

        They do if at least half of the nodes that can have kept an id did so: of each community
        that does not claim an unused id, those that had this id in the last window, compared with
        those that had the most frequent id. In the first window of a graph, they do unless an id
        was used before: it is below `first_id`, and `revised`, an older revision, has not had it.
        """
        if communities.community_ids is None:
            return None
        claimed: Ids = communities.community_ids[self.partition.names]
        if not self.recent:
            unused = claimed >= first_id
            if revised is not None:
                unused |= np.isin(claimed, revised.communities)
            return claimed if unused.all() else None
        last, between = self[0], self[0].between
        of_claiming = (claimed < self.recent[-1].next_community)[between.new]
        most = np.zeros(len(claimed), np.int64)
        np.maximum.at(most, between.new[of_claiming], between.shared[of_claiming])
        kept_id = last.ids[between.old] == claimed[between.new]
        return claimed if 2 * between.shared[kept_id].sum() >= most.sum() else None

    def identify(self, next_id: int, threshold: float, claimed: Ids | None = None) -> Identities:
        """Identify the communities: compare them with the last window, then with earlier ones.

        A community has the identity that it claims, `(K,)`, unless that is another community's.
        Then, and without claims, it is matched by its nodes, with a Jaccard index of at least
        `threshold`. An identity found in a later window is not searched for in an earlier one. New
        ids start at `next_id`, in the order of the communities' smallest nodes; those that a
        detector gives are kept.
        """
        k = self.partition.n_communities
        identities = Identities(
            partition=self.partition,
            ids=np.full(k, NOBODY, np.int64),
            overlap=np.full(k, np.nan),
            size_before=np.zeros(k, np.int64),
            away=np.zeros(k, np.int64),
            reappeared=np.zeros(k, np.bool_),
        )
        by_nodes = np.ones(k, np.bool_)
        if claimed is not None:
            by_nodes = _recognise_claimed(identities, self, claimed, next_id)
        _recognise_alike(identities, self, by_nodes, threshold)
        if claimed is not None:
            new = (identities.ids == NOBODY) & ~by_nodes
            identities.ids[new] = claimed[new]
            if self.recent:  # of no window that is remembered, but used before
                before = new & (claimed < next_id)
                identities.reappeared[before] = True
                identities.away[before] = self[len(self) - 1].away + 1
        nameless = np.flatnonzero(identities.ids == NOBODY)
        # Also above ids that a detector gave in this window, so that none is given twice.
        unused = max(next_id, int(identities.ids.max(initial=NOBODY)) + 1)
        identities.ids[nameless] = unused + np.arange(len(nameless))
        return identities


def _recognise_claimed(
    identities: Identities, history: TrackedHistory, claimed: Ids, next_id: int
) -> NDArray[np.bool_]:
    """Give communities the identities they claim; return which claims are refused, `(K,)`."""
    refused = np.zeros(len(claimed), np.bool_)
    for steps in range(len(history)):
        undecided = (identities.ids == NOBODY) & ~refused & (claimed < next_id)
        if not undecided.any():
            break
        front = history[steps]
        holds = _holders(claimed, front)
        _recognise(identities, front, np.where(undecided, holds, NOBODY), steps)
        refused |= undecided & (holds == NOBODY) & np.isin(claimed, front.ids)
    return refused


def _holders(claimed: Ids, front: Front) -> Ids:
    """Return the community of an earlier window that has the claimed id, `(K,)`, or `NOBODY`.

    Not if that community still has nodes, but none in common with the one that claims its id.
    """
    between = front.between
    # An id above all others has its place behind the last one.
    place = np.minimum(np.searchsorted(front.ids, claimed), len(front.ids) - 1)
    shares = np.zeros(len(claimed), np.bool_)
    shares[between.new[between.old == place[between.new]]] = True
    gone = between.old_sizes[place] == 0
    return np.where((front.ids[place] == claimed) & (shares | gone), place, NOBODY)


def _recognise_alike(
    identities: Identities, history: TrackedHistory, by_nodes: NDArray[np.bool_], threshold: float
) -> None:
    """Give communities the identities that match them best and are not taken.

    by_nodes: whether to, `(K,)`.
    """
    taken = set(identities.ids.tolist())
    for steps in range(len(history)):
        undecided = by_nodes & (identities.ids == NOBODY)
        if not undecided.any():
            break
        front, pairs = history[steps], history[steps].between
        possible = undecided[pairs.new] & ~np.isin(front.ids, list(taken))[pairs.old]
        free = replace(
            pairs, old=pairs.old[possible], new=pairs.new[possible], shared=pairs.shared[possible]
        )
        _recognise(identities, front, free.matched(threshold), steps)
        # An identity that a later window had is never searched for in an earlier one.
        taken.update(front.ids.tolist())


def _recognise(identities: Identities, front: Front, partners: Ids, steps: int) -> None:
    """Enter the partners found `steps` windows before the last one, `(K,)` or `NOBODY`."""
    new = np.flatnonzero(partners != NOBODY)
    old, pairs = partners[new], front.between
    identities.ids[new] = front.ids[old]
    identities.size_before[new] = front.partition.sizes[old]
    identities.away[new] = front.away
    identities.reappeared[new] = steps > 0
    among = np.flatnonzero(partners[pairs.new] == pairs.old)
    identities.overlap[pairs.new[among]] = pairs.jaccard[among]


def _ascending(nodes: pa.Array, values: NDArray[np.integer]) -> tuple[pa.Array, Ids]:
    import pyarrow.compute as pc

    if pa.types.is_integer(nodes.type):
        ids = nodes.to_numpy()
        if (ids[1:] > ids[:-1]).all():
            return nodes, values.astype(np.int64)
    order = pc.sort_indices(nodes)
    return nodes.take(order), values[order.to_numpy()].astype(np.int64)


def _pieces(rows: Ids, columns: Ids, n: int) -> list[Ids]:
    """Return the pairs of each connected component of the candidates' bipartite graph."""
    if not len(rows):
        return []
    graph = coo_array((np.ones(len(rows)), (rows, columns)), (n, n))
    piece = connected_components(graph, directed=False)[1][rows]
    order = np.argsort(piece, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(piece[order])) + 1)


def _best(old: Ids, new: Ids, weights: Floats) -> tuple[Ids, Ids]:
    """Return the maximum-weight matching of a few candidate pairs."""
    if len(old) == 1:
        return old, new
    rows, row = np.unique(old, return_inverse=True)
    columns, column = np.unique(new, return_inverse=True)
    if len(rows) * len(columns) > _MOST_CELLS:
        return _best_first(old, new, weights)
    dense = np.zeros((len(rows), len(columns)))
    dense[row, column] = weights
    a, b = linear_sum_assignment(dense, maximize=True)
    # The assignment pairs all it can, also communities that share no node.
    real = dense[a, b] > 0
    return rows[a[real]], columns[b[real]]


def _best_first(old: Ids, new: Ids, weights: Floats) -> tuple[Ids, Ids]:
    """Return a matching of at least half of the maximum weight, in O(n log n)."""
    matched_old: set[int] = set()
    matched_new: set[int] = set()
    chosen: list[int] = []
    # Stable: of equal pairs the first, so that the result does not depend on the sort.
    order = np.argsort(-weights, kind="stable")
    for at, a, b in zip(order.tolist(), old[order].tolist(), new[order].tolist(), strict=True):
        if a not in matched_old and b not in matched_new:
            matched_old.add(a)
            matched_new.add(b)
            chosen.append(at)
    return old[chosen], new[chosen]
