"""One step of tracking: from earlier windows and a new one to the events of the new one.

A community may take more than one window to merge into another, and a new one may be found late,
when its nodes have already been counted to another. So where nodes came from and went is asked of
more than the last window (`TrackedHistory.looked_back`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import TypeVar

import numpy as np

from stream_icd.core.arrays import Ids, n_distinct
from stream_icd.core.communities import MOST_IDS, Communities
from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.events import CommunityEvent, CommunityEvents, EventKind
from stream_icd.core.times import AHEAD, missed_windows
from stream_icd.methods.tracking.identities import Front, Identities, NodePartition, TrackedHistory
from stream_icd.methods.tracking.packed import PackedWindow

_Tracked = TypeVar("_Tracked", CommunityEvents, PackedWindow)
_Relatives = Mapping[int, tuple[int, ...]]

_LOOK_BACK = 4
"""How many windows are asked where communities came from and went."""

_NEW = -1
"""Stands for the id before of a community that is new."""


@dataclass(frozen=True, slots=True)
class TrackSettings:
    """Thresholds of tracking.

    Attributes:
        match: a community keeps its identity if its Jaccard index with its former self is at
            least this (Greene et al.'s θ). Several communities this similar have merged or split.
        part: a community also takes part in a merger or split with more than this fraction of
            its members (Asur et al.'s κ), however large the other community is; 1: never.
        change: report growth or shrinkage when the size changes by at least this fraction.
        smallest: do not report mergers or splits of communities smaller than this: they are too
            small to tell an event from chance.
        absence: number of windows for which an absent identity is kept, whether windows or the
            community are missing.
        ahead: a window that ends further ahead of the clock than this is refused.
    """

    match: float = 0.3
    part: float = 0.5
    change: float = 0.1
    smallest: int = 3
    absence: int = 5
    ahead: timedelta = AHEAD

    def __post_init__(self) -> None:
        for name, good, rule in (
            ("match", 0 < self.match <= 1, "above 0 and at most 1"),
            ("part", 0.5 <= self.part <= 1, "at least 0.5 and at most 1"),
            ("change", self.change > 0, "above 0"),
            ("smallest", self.smallest >= 1, "at least 1"),
            ("absence", self.absence >= 0, "at least 0"),
            ("ahead", self.ahead >= timedelta(0), "at least 0"),
        ):
            if not good:
                raise BadSettings(f"{name}={getattr(self, name)}: it must be {rule}")


DEFAULTS = TrackSettings()


def track(
    recent: Sequence[CommunityEvents],
    communities: Communities,
    settings: TrackSettings = DEFAULTS,
    first_id: int = 0,
) -> CommunityEvents:
    """Return the events of a graph's communities in their window.

    The same communities give the same ids and events, whatever their labels and the order of nodes.
    They are compared on the nodes that both windows have; sizes count all nodes.

    - A window that is not after the last one is late: it is not tracked, and `late` is set.
    - Another revision of the last window replaces it: the result is as if the older revision had
      never existed, ids included. A correction of an older window is late.
    - Up to `settings.absence` missing windows are bridged; after more, all earlier communities have
      died and all present ones are born.
    - A change of model does not affect the matching; `model_before` reports it.
    - If the result has the ids of a detector with memory, and they continue those of the tracked
      windows, these are the stable ids (`TrackedHistory.claims`), however many windows are missing.

    Args:
        recent: earlier tracked windows of the same graph, oldest first, as `remember` keeps them;
            empty for the first window. This is the whole state of a tracker.
        first_id: least id of a new community, above all ids of windows that are not in `recent`.

    Raises:
        LimitExceeded: the graph has no stable ids left for new communities.
    """
    revised = recent[-1] if recent else None
    # As if the older revision had never been: its events must not count, nor its ids be used up.
    recent = _without_revised(recent, communities)
    last = recent[-1] if recent else None
    # The result of a window that is not tracked; one that is tracked fills in the rest.
    late = _late(communities, last)
    if last is not None and communities.window.end <= last.window.end:
        return late
    partition = NodePartition.by_first_node(communities.nodes, communities.labels)
    history = TrackedHistory(recent[-(settings.absence + 1) :], communities.window, partition)
    if last is None:
        start = first_id if revised is None else _first_id(revised)
        identities = history.identify(
            start, settings.match, history.claims(communities, start, revised)
        )
        events = tuple(_living(at, identities, "born") for at in range(len(identities.ids)))
    else:  # of as many windows, whether or not the last was revised
        claimed = history.claims(communities)
        # Matched by nodes, a window too far away shares nothing; by ids, it may be at any distance.
        if claimed is None:
            history = replace(history, absence=settings.absence)
        identities = history.identify(max(last.next_community, first_id), settings.match, claimed)
        events = _with_strength(
            _events_between(history, identities, settings), communities, identities
        )
    # An id is never given twice, also if its community is gone.
    next_community = max(int(identities.ids.max()) + 1, late.next_community, first_id)
    if next_community > MOST_IDS:
        raise LimitExceeded(
            f"no stable id below {MOST_IDS} is left for a new community: somebody gave the highest "
            "ones. Once the events topic no longer holds them, start the graph anew"
        )
    return replace(
        late,
        nodes=partition.nodes,
        communities=identities.ids[partition.labels],
        events=events,
        next_community=next_community,
        missed=missed_windows(last.window, communities.window) if last else 0,
        late=False,
    )


def _late(communities: Communities, last: CommunityEvents | None) -> CommunityEvents:
    return CommunityEvents(
        graph=communities.graph,
        snapshot_id=communities.snapshot_id,
        window=communities.window,
        model=communities.model,
        nodes=communities.nodes.slice(0, 0),
        communities=np.empty(0, np.int64),
        events=(),
        next_community=last.next_community if last else 0,
        late=True,
        model_before=last.model if last and last.model != communities.model else None,
        revision=communities.revision,
        snapshot_place=communities.snapshot_place,
    )


def _first_id(revised: CommunityEvents) -> int:
    """Return the first id of a window with none before it; `revised` is its older revision.

    If that was not the first window of its graph, the windows before it are forgotten, and their
    ids are not reused.
    """
    if revised.next_community == n_distinct(revised.communities):
        return 0
    return revised.next_community


def remember(
    recent: Sequence[_Tracked], tracked: _Tracked, settings: TrackSettings = DEFAULTS
) -> tuple[_Tracked, ...]:
    """Return `recent` for the next window: add `tracked`, unless late, and drop old windows.

    It keeps one window more than `settings.absence`, in case the last one is revised.
    """
    if tracked.late:
        return tuple(recent)
    windows = list(_without_revised(recent, tracked))
    windows.append(tracked)
    return tuple(windows[-(settings.absence + 2) :])


def _without_revised(
    recent: Sequence[_Tracked], result: Communities | CommunityEvents | PackedWindow
) -> Sequence[_Tracked]:
    """Return `recent` without its last window if `result` is another revision of that window."""
    if recent and recent[-1].identity()[:3] == result.identity()[:3]:
        return recent if recent[-1].revision == result.revision else recent[:-1]
    return recent


def _events_between(
    history: TrackedHistory, identities: Identities, settings: TrackSettings
) -> tuple[CommunityEvent, ...]:
    """Return the events of present communities, in order, then of those that ended.

    - *merged*: several communities, including its own former self, joined into one, each with more
      than `part` of its members (Asur et al.) or with a Jaccard index of at least `match`
      (Greene et al.);
    - *split*: one community became several, by the same thresholds;
    - *died*: it is absent, and neither merged nor was split;
    - *returned*: it was absent, and has the id that it had before.
    """
    origins = _parents_of(history, identities.ids, settings)
    heirs = _children_of(history, identities, origins, settings)
    merged = {community: all_of for community, all_of in origins.items() if len(all_of) > 1}
    split = {community: all_of for community, all_of in heirs.items() if len(all_of) > 1}
    absorbed = _merged_lately(history.looked_back).keys() | set(
        chain.from_iterable(merged.values())
    )
    return (
        *_of_living(identities, merged, split, settings.change),
        *_of_ended(history[0], identities, absorbed, split),
    )


def _of_living(
    identities: Identities, merged: _Relatives, split: _Relatives, change: float
) -> Iterator[CommunityEvent]:
    out_of = {child: (parent,) for parent, children in split.items() for child in children}
    for at, community in enumerate(identities.ids.tolist()):
        came = merged.get(community, ())
        appeared = identities.size_before[at] == 0 or identities.reappeared[at]
        if appeared:
            parents = sorted({*came, *out_of.get(community, ())})
            came_back: EventKind = "returned" if identities.reappeared[at] else "born"
            yield _living(at, identities, came_back, parents=tuple(parents))
        if came:
            yield _living(at, identities, "merged", parents=came)
        if community in split:
            yield _living(at, identities, "split", children=split[community])
        if not (appeared or came or community in split):
            grown_by = identities.partition.sizes[at] - identities.size_before[at]
            kind: EventKind = "continued"
            if abs(grown_by) >= change * identities.size_before[at]:
                kind = "grown" if grown_by > 0 else "shrunk"
            yield _living(at, identities, kind)


def _living(
    at: int,
    identities: Identities,
    kind: EventKind,
    parents: tuple[int, ...] = (),
    children: tuple[int, ...] = (),
) -> CommunityEvent:
    overlap = float(identities.overlap[at])
    return CommunityEvent(
        kind=kind,
        community=int(identities.ids[at]),
        label=int(identities.partition.names[at]),
        size=int(identities.partition.sizes[at]),
        size_before=int(identities.size_before[at]),
        overlap=None if np.isnan(overlap) else overlap,
        parents=parents,
        children=children,
        away=int(identities.away[at]),
    )


def _of_ended(
    front: Front, identities: Identities, absorbed: set[int], split: _Relatives
) -> Iterator[CommunityEvent]:
    """Yield events of former communities without a successor, except those that merged."""
    present = set(identities.ids.tolist())
    for community, size in zip(front.ids.tolist(), front.partition.sizes.tolist(), strict=True):
        if community in present or (community in absorbed and community not in split):
            continue
        children = split.get(community, ())
        kind: EventKind = "split" if children else "died"
        yield CommunityEvent(kind, community, None, 0, size, children=children)


def _with_strength(
    events: tuple[CommunityEvent, ...], communities: Communities, identities: Identities
) -> tuple[CommunityEvent, ...]:
    """Return the events with the bits that each of them saves; unknown if the detector told none.

    The parts of an event are added up: for a merger, the bits of each community that went into
    another one. The detector's ids must be the stable ones.
    """
    ids, moved, moved_bits = communities.community_ids, communities.moved, communities.moved_bits
    if ids is None or moved is None or moved_bits is None:
        return events
    # The detector tells bits by its own ids: here they would be those of other communities.
    if not np.array_equal(ids[identities.partition.names], identities.ids):
        return events
    into: dict[int, dict[int, float]] = defaultdict(dict)
    out_of: dict[int, dict[int, float]] = defaultdict(dict)
    for (before, now), bits in zip(moved.tolist(), moved_bits.tolist(), strict=True):
        into[now][before] = out_of[before][now] = bits
    return tuple(
        replace(event, bits=_strength(event, into[event.community], out_of[event.community]))
        for event in events
    )


def _strength(
    event: CommunityEvent, came: Mapping[int, float], went: Mapping[int, float]
) -> float | None:
    """Return the bits of an event; came, went: those of nodes, by the community before and now."""
    match event.kind:
        case "merged":
            return _total(came.get(parent) for parent in event.parents)
        case "split":
            return _total(went.get(child) for child in event.children)
        case "born" | "returned":
            return _total(came.get(parent) for parent in (event.parents or (_NEW,)))
        case "grown":
            return _total(bits for before, bits in came.items() if before != _NEW)
        case "shrunk" | "died":
            return _total(went.values())
        case _:
            return None


def _total(parts: Iterable[float | None]) -> float | None:
    parts_known = [part for part in parts if part is not None]
    return round(sum(parts_known), 3) if parts_known else None


def _parents_of(history: TrackedHistory, ids: Ids, settings: TrackSettings) -> _Relatives:
    """Return the communities that went into each present one, by stable id.

    A community went into another if more than `part` of the members that it had in one of the last
    windows are there now, or their Jaccard index is at least `match`. Each of the two existed then,
    and the first until the last window. What was reported before is not reported again.
    """
    last, recent = history[0], history.looked_back
    absorbed = _merged_lately(recent).keys()
    parents: dict[int, set[int]] = defaultdict(set)
    for old, new in _went_in(last, ids, settings):
        if old == new or old not in absorbed:
            parents[new].add(old)
    not_absorbed, present = set(last.ids.tolist()) - absorbed, set(ids.tolist())
    for steps in range(1, min(_LOOK_BACK, len(recent))):
        front = history[steps]
        existed = set(front.ids.tolist()) & present
        for old, new in _went_in(front, ids, settings):
            if new in existed and old != new and old in not_absorbed:
                parents[new].update((old, new))
    return {new: tuple(sorted(olds)) for new, olds in parents.items()}


def _children_of(
    history: TrackedHistory, identities: Identities, parents: _Relatives, settings: TrackSettings
) -> _Relatives:
    """Return the present communities that came out of each former one, by stable id.

    A community came out of another if more than `part` of its members were there in the last
    window, or their Jaccard index is at least `match`. For a new one, this must hold in all of the
    last windows in which the other existed: else its members have met there only lately. An old one
    into which the other merges did not come out of it. These two rules need windows to look back.
    """
    pairs, recent = _came_out(history[0], identities.ids, settings), history.looked_back
    fresh = set(identities.ids[identities.size_before == 0].tolist())
    before = set(history[0].ids.tolist())
    pairs = {
        (old, new)
        for old, new in pairs
        if not recent or old == new or new not in before or old not in parents.get(new, ())
    }
    for steps in range(1, min(_LOOK_BACK, len(recent))):
        doubtful = {(old, new) for old, new in pairs if new in fresh}
        if not doubtful:
            break
        # What merged since counts as one: a part of it now was in one or the other then.
        front = _united(history[steps], _merged_lately(recent[-steps:]))
        existed = set(front.ids.tolist())
        strangers = set(identities.ids[front.between.new_sizes == 0].tolist())
        doubtful -= _came_out(front, identities.ids, settings)
        pairs -= {(old, new) for old, new in doubtful if old in existed and new not in strangers}
    children: dict[int, list[int]] = defaultdict(list)
    for old, new in sorted(pairs):
        children[old].append(new)
    return {old: tuple(news) for old, news in children.items()}


def _merged_lately(recent: Sequence[CommunityEvents]) -> dict[int, int]:
    """Return which communities have merged and have not come back since, and into which."""
    into: dict[int, int] = {}
    for event in chain.from_iterable(window.events for window in recent):
        if event.kind == "merged":
            parts = (parent for parent in event.parents if parent != event.community)
            into |= dict.fromkeys(parts, event.community)
        elif event.kind in ("born", "returned", "split"):
            for community in (event.community, *event.children):
                into.pop(community, None)
    return into


def _united(front: Front, into: Mapping[int, int]) -> Front:
    """Return the front as if the communities that merged later had been one already."""
    last = _last_of_each(into)
    names = np.array([last.get(community, community) for community in front.ids.tolist()], np.int64)
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


def _last_of_each(into: Mapping[int, int]) -> dict[int, int]:
    """Follow mergers from each community to the one that is left, or around a circle once."""
    last: dict[int, int] = {}
    for community in into:
        path: dict[int, int] = {}  # each community on it, and its place
        while community in into and community not in last and community not in path:
            path[community] = len(path)
            community = into[community]
        # Two communities may each have merged into the other, in different windows.
        circle = path.get(community, len(path))
        end = last.get(community, community)
        last |= {member: member if place >= circle else end for member, place in path.items()}
    return last


def _went_in(front: Front, ids: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs of a former community and a present one that it went into."""
    return _pairs(front, ids, front.between.old_sizes[front.between.old], settings)


def _came_out(front: Front, ids: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs of a former community and a present one that came out of it."""
    return _pairs(front, ids, front.between.new_sizes[front.between.new], settings)


def _pairs(front: Front, ids: Ids, sizes: Ids, settings: TrackSettings) -> set[tuple[int, int]]:
    """Return the pairs that share enough; sizes: of that community of each that took part."""
    pairs = front.between
    enough = (pairs.shared / sizes > settings.part) | (pairs.jaccard >= settings.match)
    enough &= sizes >= settings.smallest
    old, new = front.ids[pairs.old[enough]], ids[pairs.new[enough]]
    return set(zip(old.tolist(), new.tolist(), strict=True))
