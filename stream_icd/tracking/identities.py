"""The identity of each community of a window: from the last window, an earlier one, or new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_icd.events import CommunityEvents
from stream_icd.snapshot import Window
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


def compare(
    before: CommunityEvents, window: Window, partition: Partition, away: int, absence: int
) -> Front:
    """Compare the window `before` with `partition`; beyond `absence` windows they share nothing."""
    old = by_name(before.nodes, before.communities)
    gap = max(away, missed_windows(before.window, window))
    between = overlaps(old, partition) if gap <= absence else no_overlaps(old, partition)
    return Front(old, between, gap)


def identify(
    front: Front,
    recent: Sequence[CommunityEvents],
    window: Window,
    partition: Partition,
    settings: TrackSettings,
) -> Identities:
    """Identify the communities: match them with the last window, then with earlier ones.

    An identity found in a later window is not searched for in an earlier one. New ids start at
    `recent[-1].next_community`, in the order of the communities' smallest nodes.

    Args:
        front: the last window of `recent`, compared with the new one.
        recent: tracked windows, oldest first.
    """
    known = Identities.unknown(partition.n_communities)
    _recognise(known, front, match(front.between, settings.match))
    seen = set(front.ids.tolist())
    for steps, earlier in enumerate(reversed(recent[:-1]), start=1):
        if (known.ids != NOBODY).all():
            break
        older = compare(earlier, window, partition, steps, settings.absence)
        partners = match(_only_unknown(older, known, seen), settings.match)
        known.reappeared[partners != NOBODY] = True
        _recognise(known, older, partners)
        seen.update(older.ids.tolist())
    new = np.flatnonzero(known.ids == NOBODY)
    known.ids[new] = recent[-1].next_community + np.arange(len(new))
    return known


def _only_unknown(older: Front, known: Identities, seen: set[int]) -> Overlaps:
    """Keep the pairs of a still unknown community and an identity not seen since."""
    pairs = older.between
    kept = (known.ids == NOBODY)[pairs.new]
    kept &= ~np.isin(older.ids, list(seen))[pairs.old]
    return Overlaps(
        pairs.old[kept], pairs.new[kept], pairs.shared[kept], pairs.old_sizes, pairs.new_sizes
    )


def _recognise(known: Identities, front: Front, partners: NDArray[np.int64]) -> None:
    found = np.flatnonzero(partners != NOBODY)
    old, pairs = partners[found], front.between
    known.ids[found] = front.ids[old]
    known.size_before[found] = front.partition.sizes[old]
    known.away[found] = front.away
    among = np.flatnonzero(partners[pairs.new] == pairs.old)
    known.overlap[pairs.new[among]] = pairs.jaccard[among]
