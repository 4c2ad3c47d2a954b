"""Lifecycle events of communities between two windows, given their identities; their strength."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stream_icd.communities import Communities
from stream_icd.events import CommunityEvent, CommunityEvents, Kind
from stream_icd.tracking.flows import Relatives, children_of, merged_lately, parents_of
from stream_icd.tracking.identities import Front, History, Identities
from stream_icd.tracking.partition import Partition
from stream_icd.tracking.settings import TrackSettings

NEW = -1
"""Stands for the id before of a community that is new."""


def first_events(known: Identities, partition: Partition) -> tuple[CommunityEvent, ...]:
    """Return the events of a graph's first window: every community is born."""
    return tuple(_living(at, known, partition, "born") for at in range(len(known.ids)))


def events_between(
    history: History,
    recent: Sequence[CommunityEvents],
    known: Identities,
    partition: Partition,
    settings: TrackSettings,
) -> tuple[CommunityEvent, ...]:
    """Return the events of present communities, in order, then of those that ended.

    - *merged*: several communities, including its own former self, joined into one, each with more
      than `part` of its members (Asur et al.) or with a Jaccard index of at least `match`
      (Greene et al.);
    - *split*: one community became several, by the same thresholds;
    - *died*: it is absent, and neither merged nor was split.

    `history`: the windows before, compared with the new one; `recent`: as in `flows`.
    """
    origins = parents_of(history, known.ids, recent, settings)
    heirs = children_of(history, known, recent, origins, settings)
    merged = {community: all_of for community, all_of in origins.items() if len(all_of) > 1}
    split = {community: all_of for community, all_of in heirs.items() if len(all_of) > 1}
    absorbed = merged_lately(recent).keys() | {one for all_of in merged.values() for one in all_of}
    return (
        *_of_living(known, partition, merged, split, settings.change),
        *_of_ended(history[0], known, absorbed, split),
    )


def _of_living(
    known: Identities, partition: Partition, merged: Relatives, split: Relatives, change: float
) -> Iterator[CommunityEvent]:
    out_of = {child: (parent,) for parent, children in split.items() for child in children}
    for at, community in enumerate(known.ids.tolist()):
        came = merged.get(community, ())
        appeared = known.size_before[at] == 0 or known.reappeared[at]
        if appeared:
            parents = sorted({*came, *out_of.get(community, ())})
            yield _living(at, known, partition, "born", parents=tuple(parents))
        if came:
            yield _living(at, known, partition, "merged", parents=came)
        if community in split:
            yield _living(at, known, partition, "split", children=split[community])
        if not (appeared or came or community in split):
            grown_by = partition.sizes[at] - known.size_before[at]
            kind: Kind = "continued"
            if abs(grown_by) >= change * known.size_before[at]:
                kind = "grown" if grown_by > 0 else "shrunk"
            yield _living(at, known, partition, kind)


def _living(
    at: int,
    known: Identities,
    partition: Partition,
    kind: Kind,
    parents: tuple[int, ...] = (),
    children: tuple[int, ...] = (),
) -> CommunityEvent:
    overlap = float(known.overlap[at])
    return CommunityEvent(
        kind=kind,
        community=int(known.ids[at]),
        label=int(partition.names[at]),
        size=int(partition.sizes[at]),
        size_before=int(known.size_before[at]),
        overlap=None if np.isnan(overlap) else overlap,
        parents=parents,
        children=children,
        away=int(known.away[at]),
    )


def _of_ended(
    front: Front, known: Identities, absorbed: set[int], split: Relatives
) -> Iterator[CommunityEvent]:
    """Yield events of former communities without a successor, except those that merged."""
    there = set(known.ids.tolist())
    for community, size in zip(front.ids.tolist(), front.partition.sizes.tolist(), strict=True):
        if community in there or (community in absorbed and community not in split):
            continue
        children = split.get(community, ())
        kind: Kind = "split" if children else "died"
        yield CommunityEvent(kind, community, None, 0, size, children=children)


def with_strength(
    events: tuple[CommunityEvent, ...],
    communities: Communities,
    known: Identities,
    partition: Partition,
) -> tuple[CommunityEvent, ...]:
    """Return the events with the bits that each of them saves; unknown if the detector told none.

    The parts of an event are added up: for a merger, the bits of each community that went into
    another one. The detector's ids must be the stable ones.
    """
    if (
        communities.moved is None
        or communities.moved_bits is None
        or communities.community_ids is None
    ):
        return events
    if not np.array_equal(communities.community_ids[partition.names], known.ids):
        return events
    into: dict[int, dict[int, float]] = defaultdict(dict)
    out_of: dict[int, dict[int, float]] = defaultdict(dict)
    for (before, now), bits in zip(
        communities.moved.tolist(), communities.moved_bits.tolist(), strict=True
    ):
        into[now][before] = out_of[before][now] = bits
    return tuple(
        replace(event, bits=_strength(event, into[event.community], out_of[event.community]))
        for event in events
    )


def _strength(
    event: CommunityEvent, came: Mapping[int, float], left: Mapping[int, float]
) -> float | None:
    """Return the bits of an event; came, left: those of nodes, by the community before and now."""
    match event.kind:
        case "merged":
            return _total(came.get(parent) for parent in event.parents)
        case "split":
            return _total(left.get(child) for child in event.children)
        case "born":
            return _total(came.get(one) for one in (event.parents or (NEW,)))
        case "grown":
            return _total(bits for one, bits in came.items() if one != NEW)
        case "shrunk" | "died":
            return _total(left.values())
        case _:
            return None


def _total(parts: Iterable[float | None]) -> float | None:
    known = [part for part in parts if part is not None]
    return round(sum(known), 3) if known else None
