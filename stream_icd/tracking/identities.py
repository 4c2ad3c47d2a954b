"""The identity of each community of a window: from the last window, an earlier one, or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_icd.arrays import Ids
from stream_icd.events import CommunityEvents
from stream_icd.snapshot import Window
from stream_icd.tracking.claims import holders
from stream_icd.tracking.gaps import missed_windows
from stream_icd.tracking.matching import NOBODY, Overlaps, match, no_overlaps, overlaps
from stream_icd.tracking.partition import Partition, by_name
from stream_icd.tracking.settings import TrackSettings


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """An earlier window, compared with a new one.

    Attributes:
        partition: its communities, by stable id.
        between: their overlaps with the communities of the new window.
        away: number of windows between the two.
    """

    partition: Partition
    between: Overlaps
    away: int

    @property
    def ids(self) -> NDArray[np.int64]:
        return self.partition.names


@dataclass(frozen=True, slots=True, eq=False)
class Identities:
    """Stable ids of a window's communities, and where each was last seen; `(K,)` each.

    For a new community `overlap` is NaN and `size_before` is 0. `reappeared` is true for a
    community that was absent from the last window but is known from before.
    """

    ids: NDArray[np.int64]
    overlap: NDArray[np.float64]
    size_before: NDArray[np.int64]
    away: NDArray[np.int64]
    reappeared: NDArray[np.bool_]

    @staticmethod
    def unknown(n_communities: int) -> Identities:
        n = n_communities
        return Identities(
            ids=np.full(n, NOBODY, np.int64),
            overlap=np.full(n, np.nan),
            size_before=np.zeros(n, np.int64),
            away=np.zeros(n, np.int64),
            reappeared=np.zeros(n, np.bool_),
        )


class History:
    """Tracked windows, newest first, each compared with a new one when it is first needed.

    Args:
        recent: tracked windows of the graph, oldest first, at least one.
        window: the new window.
        partition: its communities.
        absence: windows further away share nothing with the new one; None: no limit.
    """

    def __init__(
        self,
        recent: Sequence[CommunityEvents],
        window: Window,
        partition: Partition,
        absence: int | None = None,
    ) -> None:
        self._recent, self._window, self._partition = recent, window, partition
        self._absence = absence
        self._fronts: list[Front] = []

    def __len__(self) -> int:
        return len(self._recent)

    def __getitem__(self, steps: int) -> Front:
        """Return the window that is `steps` windows before the last one."""
        while len(self._fronts) <= steps:
            self._fronts.append(self._compared(len(self._fronts)))
        return self._fronts[steps]

    def _compared(self, steps: int) -> Front:
        before = self._recent[-1 - steps]
        old = by_name(before.nodes, before.communities)
        away = max(steps, missed_windows(before.window, self._window))
        near = self._absence is None or away <= self._absence
        between = overlaps(old, self._partition) if near else no_overlaps(old, self._partition)
        return Front(old, between, away)


def identify(
    history: History,
    partition: Partition,
    next_id: int,
    settings: TrackSettings,
    claimed: Ids | None = None,
) -> Identities:
    """Identify the communities: compare them with the last window, then with earlier ones.

    A community has the identity that it claims, unless that is another community's. Then, and
    without claims, it is matched by its nodes. An identity found in a later window is not searched
    for in an earlier one. New ids start at `next_id`, in the order of the communities' smallest
    nodes; those that a detector gives are kept.

    Args:
        claimed: the id that each community claims, `(K,)`; None: no claims.
    """
    known = Identities.unknown(partition.n_communities)
    wanted = np.ones(partition.n_communities, np.bool_)
    if claimed is not None:
        wanted = _recognise_claimed(known, history, claimed, next_id)
        claimed = np.where(wanted, NOBODY, claimed)
    _recognise_alike(known, history, wanted, settings.match)
    _number(known, next_id, claimed)
    return known


def _recognise_claimed(
    known: Identities, history: History, claimed: Ids, next_id: int
) -> NDArray[np.bool_]:
    """Give communities the identities they claim; return which claims are refused, `(K,)`."""
    refused = np.zeros(len(claimed), np.bool_)
    for steps in range(len(history)):
        undecided = (known.ids == NOBODY) & ~refused & (claimed < next_id)
        if not undecided.any():
            break
        front = history[steps]
        holds = holders(claimed, front.partition, front.between)
        _recognise(known, front, np.where(undecided, holds, NOBODY), steps)
        refused |= undecided & (holds == NOBODY) & np.isin(claimed, front.ids)
    return refused


def _recognise_alike(
    known: Identities, history: History, wanted: NDArray[np.bool_], threshold: float
) -> None:
    """Give the `wanted` communities the identities that match them best and are not taken."""
    seen = set(known.ids.tolist())
    for steps in range(len(history)):
        left = wanted & (known.ids == NOBODY)
        if not left.any():
            break
        front = history[steps]
        _recognise(known, front, match(_only(front, left, seen), threshold), steps)
        seen.update(front.ids.tolist())


def number_first(partition: Partition, first_id: int, claimed: Ids | None) -> Identities:
    """Identify the communities of a graph's first window: as claimed, or numbered from `first_id`.

    claimed: the id that each community claims, `(K,)`; None: no claims.
    """
    known = Identities.unknown(partition.n_communities)
    _number(known, first_id, claimed)
    return known


def _number(known: Identities, next_id: int, claimed: Ids | None) -> None:
    """Give ids to new communities: those they claim, or unused ones."""
    new = known.ids == NOBODY
    if claimed is not None:
        known.ids[new] = claimed[new]
    nameless = np.flatnonzero(known.ids == NOBODY)
    unused = max(next_id, int(known.ids.max(initial=NOBODY)) + 1)
    known.ids[nameless] = unused + np.arange(len(nameless))


def _only(front: Front, left: NDArray[np.bool_], taken: set[int]) -> Overlaps:
    """Keep the pairs of a community that is `left` and an identity that is not taken."""
    pairs = front.between
    kept = left[pairs.new]
    kept &= ~np.isin(front.ids, list(taken))[pairs.old]
    return Overlaps(
        pairs.old[kept], pairs.new[kept], pairs.shared[kept], pairs.old_sizes, pairs.new_sizes
    )


def _recognise(known: Identities, front: Front, partners: NDArray[np.int64], steps: int) -> None:
    """Enter the partners found `steps` windows before the last one, `(K,)` or `NOBODY`."""
    found = np.flatnonzero(partners != NOBODY)
    old, pairs = partners[found], front.between
    known.ids[found] = front.ids[old]
    known.size_before[found] = front.partition.sizes[old]
    known.away[found] = front.away
    known.reappeared[found] = steps > 0
    among = np.flatnonzero(partners[pairs.new] == pairs.old)
    known.overlap[pairs.new[among]] = pairs.jaccard[among]
