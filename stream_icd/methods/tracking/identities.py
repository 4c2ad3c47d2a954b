"""The identity of each community of a window: from the last window, an earlier one, or new.

The tracker takes the ids of a detector with memory as they are, wherever they continue those of the
tracked windows. They do not if the windows before were detected without memory, or if the detector
has lost its memory and counts from 0 again; then communities are matched by their nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY, Floats, Ids
from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.core.times import missed_windows
from stream_icd.methods.tracking.partition import Overlaps, Partition


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """An earlier window, compared with a new one."""

    partition: Partition  # by stable id
    between: Overlaps  # with the communities of the new window
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

    partition: Partition  # the communities
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
    partition: Partition  # its communities
    absence: int | None = None
    _fronts: dict[int, Front] = field(init=False, default_factory=dict)  # `replace` begins anew

    def __len__(self) -> int:
        return len(self.recent)

    def __getitem__(self, steps: int) -> Front:
        """Return the window that is `steps` windows before the last one."""
        if steps not in self._fronts:
            before = self.recent[-1 - steps]
            old = Partition.by_name(before.nodes, before.communities)
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
        kept = last.ids[between.old] == claimed[between.new]
        return claimed if 2 * between.shared[kept].sum() >= most.sum() else None

    def identify(self, next_id: int, threshold: float, claimed: Ids | None = None) -> Identities:
        """Identify the communities: compare them with the last window, then with earlier ones.

        A community has the identity that it claims, `(K,)`, unless that is another community's.
        Then, and without claims, it is matched by its nodes, with a Jaccard index of at least
        `threshold`. An identity found in a later window is not searched for in an earlier one. New
        ids start at `next_id`, in the order of the communities' smallest nodes; those that a
        detector gives are kept.
        """
        k = self.partition.n_communities
        known = Identities(
            partition=self.partition,
            ids=np.full(k, NOBODY, np.int64),
            overlap=np.full(k, np.nan),
            size_before=np.zeros(k, np.int64),
            away=np.zeros(k, np.int64),
            reappeared=np.zeros(k, np.bool_),
        )
        wanted = np.ones(k, np.bool_)
        if claimed is not None:
            wanted = _recognise_claimed(known, self, claimed, next_id)
        _recognise_alike(known, self, wanted, threshold)
        if claimed is not None:
            new = (known.ids == NOBODY) & ~wanted
            known.ids[new] = claimed[new]
            if self.recent:  # of no window that is remembered, but used before
                before = new & (claimed < next_id)
                known.reappeared[before] = True
                known.away[before] = self[len(self) - 1].away + 1
        nameless = np.flatnonzero(known.ids == NOBODY)
        unused = max(next_id, int(known.ids.max(initial=NOBODY)) + 1)
        known.ids[nameless] = unused + np.arange(len(nameless))
        return known


def _recognise_claimed(
    known: Identities, history: TrackedHistory, claimed: Ids, next_id: int
) -> NDArray[np.bool_]:
    """Give communities the identities they claim; return which claims are refused, `(K,)`."""
    refused = np.zeros(len(claimed), np.bool_)
    for steps in range(len(history)):
        undecided = (known.ids == NOBODY) & ~refused & (claimed < next_id)
        if not undecided.any():
            break
        front = history[steps]
        holds = _holders(claimed, front)
        _recognise(known, front, np.where(undecided, holds, NOBODY), steps)
        refused |= undecided & (holds == NOBODY) & np.isin(claimed, front.ids)
    return refused


def _holders(claimed: Ids, front: Front) -> Ids:
    """Return the community of an earlier window that has the claimed id, `(K,)`, or `NOBODY`.

    Not if that community still has nodes, but none in common with the one that claims its id.
    """
    between = front.between
    place = np.minimum(np.searchsorted(front.ids, claimed), len(front.ids) - 1)
    shares = np.zeros(len(claimed), np.bool_)
    shares[between.new[between.old == place[between.new]]] = True
    gone = between.old_sizes[place] == 0
    return np.where((front.ids[place] == claimed) & (shares | gone), place, NOBODY)


def _recognise_alike(
    known: Identities, history: TrackedHistory, wanted: NDArray[np.bool_], threshold: float
) -> None:
    """Give the `wanted` communities the identities that match them best and are not taken."""
    taken = set(known.ids.tolist())
    for steps in range(len(history)):
        left = wanted & (known.ids == NOBODY)
        if not left.any():
            break
        front, pairs = history[steps], history[steps].between
        kept = left[pairs.new] & ~np.isin(front.ids, list(taken))[pairs.old]
        free = replace(pairs, old=pairs.old[kept], new=pairs.new[kept], shared=pairs.shared[kept])
        _recognise(known, front, free.matched(threshold), steps)
        taken.update(front.ids.tolist())


def _recognise(known: Identities, front: Front, partners: Ids, steps: int) -> None:
    """Enter the partners found `steps` windows before the last one, `(K,)` or `NOBODY`."""
    new = np.flatnonzero(partners != NOBODY)
    old, pairs = partners[new], front.between
    known.ids[new] = front.ids[old]
    known.size_before[new] = front.partition.sizes[old]
    known.away[new] = front.away
    known.reappeared[new] = steps > 0
    among = np.flatnonzero(partners[pairs.new] == pairs.old)
    known.overlap[pairs.new[among]] = pairs.jaccard[among]
