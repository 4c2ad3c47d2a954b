"""Where the nodes of communities came from and went, over the last few windows.

A community may take more than one window to merge into another, and a new one may be found late,
when its nodes have already been counted to another. So more than the last window is asked: those of
`recent`, oldest first, or the last one only if that is empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from stream_icd.arrays import Ids
from stream_icd.events import CommunityEvents
from stream_icd.tracking.identities import Front, History, Identities
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
    """
    last = history[0]
    absorbed = merged_lately(recent).keys()
    parents: dict[int, set[int]] = defaultdict(set)
    for old, new in _went_in(last, ids, settings):
        if old == new or old not in absorbed:
            parents[new].add(old)
    there, present = set(last.ids.tolist()), set(ids.tolist())
    for steps in range(1, min(LOOK_BACK, len(recent))):
        front = history[steps]
        existed = set(front.ids.tolist()) & present
        for old, new in _went_in(front, ids, settings):
            if new in existed and old != new and old in there - absorbed:
                parents[new].update((old, new))
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
    into which the other merges did not come out of it. These two rules need `recent`.
    """
    pairs = _came_out(history[0], known.ids, settings)
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
        front = _united(history[steps], merged_lately(recent[-steps:]))
        existed = set(front.ids.tolist())
        strangers = set(known.ids[front.between.new_sizes == 0].tolist())
        doubtful -= _came_out(front, known.ids, settings)
        pairs -= {(old, new) for old, new in doubtful if old in existed and new not in strangers}
    children: dict[int, list[int]] = defaultdict(list)
    for old, new in sorted(pairs):
        children[old].append(new)
    return {old: tuple(news) for old, news in children.items()}


def merged_lately(recent: Sequence[CommunityEvents]) -> dict[int, int]:
    """Return which communities have merged and have not come back since, and into which."""
    into: dict[int, int] = {}
    for event in chain.from_iterable(events.events for events in recent):
        if event.kind == "merged":
            into |= {
                parent: event.community for parent in event.parents if parent != event.community
            }
        elif event.kind in ("born", "split"):
            for community in (event.community, *event.children):
                into.pop(community, None)
    return into


def _united(front: Front, into: Mapping[int, int]) -> Front:
    """Return the front as if the communities that merged later had been one already."""
    names = np.array([_last_of(into, node_id) for node_id in front.ids.tolist()], np.int64)
    united, place = np.unique(names, return_inverse=True)
    pairs, n_new = front.between, len(front.between.new_sizes)
    keys, at = np.unique(place[pairs.old] * n_new + pairs.new, return_inverse=True)
    between = replace(
        pairs,
        old=keys // n_new,
        new=keys % n_new,
        shared=np.bincount(at, pairs.shared).astype(np.int64),
        old_sizes=np.bincount(place, pairs.old_sizes).astype(np.int64),
    )
    return replace(front, partition=replace(front.partition, names=united), between=between)


def _last_of(into: Mapping[int, int], community: int) -> int:
    """Follow mergers to the community that is left, or around a circle once."""
    seen: set[int] = set()
    while community in into and community not in seen:
        seen.add(community)
        community = into[community]
    return community


def _went_in(front: Front, ids: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs of a former community and a present one that it went into."""
    return _pairs(front, ids, front.between.old_sizes[front.between.old], settings)


def _came_out(front: Front, ids: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs of a former community and a present one that came out of it."""
    return _pairs(front, ids, front.between.new_sizes[front.between.new], settings)


def _pairs(front: Front, ids: Ids, sizes: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs that share enough; sizes: of that community of each that took part."""
    pairs = front.between
    kept = (pairs.shared / sizes > settings.part) | (pairs.jaccard >= settings.match)
    kept &= sizes >= settings.smallest
    old, new = front.ids[pairs.old[kept]], ids[pairs.new[kept]]
    return set(zip(old.tolist(), new.tolist(), strict=True))
