"""Where the nodes of communities came from and went, over the last few windows.

A community may take more than one window to merge into another, and a new one may be found late,
when its nodes have already been counted to another. So more than the last window is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_icd.arrays import Ids
from stream_icd.events import CommunityEvents
from stream_icd.tracking.identities import Front, History, Identities
from stream_icd.tracking.matching import Overlaps
from stream_icd.tracking.settings import TrackSettings

Relatives = Mapping[int, tuple[int, ...]]

LOOK_BACK = 4
"""How many windows are asked where communities came from and went."""


def parents_of(
    history: History, ids: Ids, recent: Sequence[CommunityEvents], settings: TrackSettings
) -> Relatives:
    """Return the communities that went into each present one, by stable id.

    A community went into another if more than `part` of the members that it had in one of the last
    windows are there now, or their Jaccard index is at least `match`. Each of the two existed then,
    and the first until the last window. What was reported before is not reported again.

    Args:
        recent: the windows to look back on, oldest first. Empty: only the last one counts.
    """
    last = history[0]
    absorbed = absorbed_lately(recent)
    parents: dict[int, set[int]] = {}
    for old, new in _went_in(last, ids, settings):
        if old == new or old not in absorbed:
            parents.setdefault(new, set()).add(old)
    there, present = set(last.ids.tolist()), set(ids.tolist())
    for steps in range(1, min(LOOK_BACK, len(recent))):
        front = history[steps]
        existed = set(front.ids.tolist()) & present
        for old, new in _went_in(front, ids, settings):
            if new in existed and old != new and old in there - absorbed:
                parents.setdefault(new, set()).update((old, new))
    return {new: tuple(sorted(olds)) for new, olds in parents.items()}


def children_of(
    history: History,
    known: Identities,
    recent: Sequence[CommunityEvents],
    parents: Relatives,
    settings: TrackSettings,
) -> Relatives:
    """Return the present communities that came out of each former one, by stable id.

    A community came out of another if more than `part` of its members were there in the last
    window, or their Jaccard index is at least `match`. For a new one, this must hold in all of the
    last windows in which the other existed: else its members have met there only lately. An old one
    into which the other merges did not come out of it.

    Args:
        recent: the windows to look back on, oldest first. Empty: only the last one counts, and the
            last two rules do not apply.
    """
    pairs = set(_came_out(history[0], known.ids, settings))
    fresh = set(known.ids[known.size_before == 0].tolist())
    before = set(history[0].ids.tolist())
    pairs = {
        (old, new)
        for old, new in pairs
        if not recent or old == new or new not in before or old not in parents.get(new, ())
    }
    for steps in range(1, min(LOOK_BACK, len(recent))):
        doubtful = {(old, new) for old, new in pairs if new in fresh}
        if not doubtful:
            break
        front = _united(history[steps], _merged(recent[-steps:]))
        existed = set(front.ids.tolist())
        strangers = set(known.ids[front.between.new_sizes == 0].tolist())
        out = set(_came_out(front, known.ids, settings))
        pairs -= {
            (old, new) for old, new in doubtful - out if old in existed and new not in strangers
        }
    children: dict[int, list[int]] = {}
    for old, new in sorted(pairs):
        children.setdefault(old, []).append(new)
    return {old: tuple(news) for old, news in children.items()}


def absorbed_lately(recent: Sequence[CommunityEvents]) -> set[int]:
    """Return the communities that have merged into others and have not come back since."""
    return set(_merged(recent))


def _merged(recent: Sequence[CommunityEvents]) -> dict[int, int]:
    """Return which communities have merged into others since, and into which."""
    into: dict[int, int] = {}
    for event in chain.from_iterable(one.events for one in recent):
        if event.kind == "merged":
            into |= {one: event.community for one in event.parents if one != event.community}
        elif event.kind in ("born", "split"):
            for community in (event.community, *event.children):
                into.pop(community, None)
    return into


def _united(front: Front, into: Mapping[int, int]) -> Front:
    """Return the front as if the communities that merged later had been one already."""
    names = np.array([_last_of(into, one) for one in front.ids.tolist()], np.int64)
    united, place = np.unique(names, return_inverse=True)
    pairs = front.between
    key = place[pairs.old] * len(pairs.new_sizes) + pairs.new
    keys, at = np.unique(key, return_inverse=True)
    between = Overlaps(
        old=keys // len(pairs.new_sizes),
        new=keys % len(pairs.new_sizes),
        shared=np.bincount(at, pairs.shared).astype(np.int64),
        old_sizes=np.bincount(place, pairs.old_sizes).astype(np.int64),
        new_sizes=pairs.new_sizes,
    )
    return replace(front, partition=replace(front.partition, names=united), between=between)


def _last_of(into: Mapping[int, int], community: int) -> int:
    """Follow mergers to the community that is left, or around a circle once."""
    seen: set[int] = set()
    while community in into and community not in seen:
        seen.add(community)
        community = into[community]
    return community


def _went_in(front: Front, ids: Ids, settings: TrackSettings) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a former community and a present one that it went into."""
    pairs = front.between
    kept = (pairs.of_old > settings.part) | (pairs.jaccard >= settings.match)
    kept &= (pairs.old_sizes >= settings.smallest)[pairs.old]
    yield from _pairs(front, ids, kept)


def _came_out(front: Front, ids: Ids, settings: TrackSettings) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a former community and a present one that came out of it."""
    pairs = front.between
    kept = (pairs.of_new > settings.part) | (pairs.jaccard >= settings.match)
    kept &= (pairs.new_sizes >= settings.smallest)[pairs.new]
    yield from _pairs(front, ids, kept)


def _pairs(front: Front, ids: Ids, kept: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    pairs = front.between
    old, new = front.ids[pairs.old[kept]], ids[pairs.new[kept]]
    return zip(old.tolist(), new.tolist(), strict=True)
