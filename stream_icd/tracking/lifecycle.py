"""Lifecycle events of communities between two windows, given their identities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stream_icd.events import CommunityEvent, Kind
from stream_icd.tracking.identities import Front, Identities
from stream_icd.tracking.partition import Partition
from stream_icd.tracking.settings import TrackSettings

Relatives = Mapping[int, tuple[int, ...]]


def first_events(known: Identities, partition: Partition) -> tuple[CommunityEvent, ...]:
    """Return the events of a graph's first window: every community is born."""
    return tuple(_living(at, known, partition, "born") for at in range(len(known.ids)))


def events_between(
    front: Front, known: Identities, partition: Partition, settings: TrackSettings
) -> tuple[CommunityEvent, ...]:
    """Return the events of present communities, in order, then of those that ended.

    - *merged*: several communities, including its own former self, joined into one, each with more
      than `part` of its members (Asur et al.) or with a Jaccard index of at least `match`
      (Greene et al.);
    - *split*: one community became several, by the same thresholds;
    - *died*: it is absent, and neither merged nor was split.
    """
    origins, heirs = _flows(front, known, settings)
    merged = {community: all_of for community, all_of in origins.items() if len(all_of) > 1}
    split = {community: all_of for community, all_of in heirs.items() if len(all_of) > 1}
    out_of = {child: parent for parent, children in split.items() for child in children}
    living = (
        event
        for at in range(len(known.ids))
        for event in _of_living(at, known, partition, merged, split, out_of, settings)
    )
    return tuple(chain(living, _of_ended(front, known, merged, split)))


def _flows(front: Front, known: Identities, settings: TrackSettings) -> tuple[Relatives, Relatives]:
    """Return, by stable id, the parents of each present and the children of each former one."""
    pairs = front.between
    alike = pairs.jaccard >= settings.match
    went_in = (pairs.of_old > settings.part) | alike
    went_in &= (pairs.old_sizes >= settings.smallest)[pairs.old]
    came_out = (pairs.of_new > settings.part) | alike
    came_out &= (pairs.new_sizes >= settings.smallest)[pairs.new]
    old, new = front.ids[pairs.old], known.ids[pairs.new]
    return _grouped(new[went_in], old[went_in]), _grouped(old[came_out], new[came_out])


def _grouped(keys: NDArray[np.int64], values: NDArray[np.int64]) -> Relatives:
    groups: dict[int, list[int]] = {}
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        groups.setdefault(key, []).append(value)
    return {key: tuple(sorted(members)) for key, members in groups.items()}


def _of_living(
    at: int,
    known: Identities,
    partition: Partition,
    merged: Relatives,
    split: Relatives,
    out_of: Mapping[int, int],
    settings: TrackSettings,
) -> Iterator[CommunityEvent]:
    community = int(known.ids[at])
    appeared = known.size_before[at] == 0 or known.reappeared[at]
    if appeared:
        parents = {*merged.get(community, ()), *_only(out_of.get(community))}
        yield _living(at, known, partition, "born", parents=tuple(sorted(parents)))
    if community in merged:
        yield _living(at, known, partition, "merged", parents=merged[community])
    if community in split:
        yield _living(at, known, partition, "split", children=split[community])
    if not (appeared or community in merged or community in split):
        yield _living(at, known, partition, _by_size(at, known, partition, settings))


def _only(parent: int | None) -> tuple[int, ...]:
    return () if parent is None else (parent,)


def _by_size(at: int, known: Identities, partition: Partition, settings: TrackSettings) -> Kind:
    grown_by = partition.sizes[at] - known.size_before[at]
    enough = settings.change * known.size_before[at]
    if grown_by >= enough:
        return "grown"
    return "shrunk" if -grown_by >= enough else "continued"


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
    front: Front, known: Identities, merged: Relatives, split: Relatives
) -> Iterator[CommunityEvent]:
    """Yield events of former communities without a successor, except those that merged."""
    absorbed = set(chain.from_iterable(merged.values()))
    there = set(known.ids.tolist())
    for community, size in zip(front.ids.tolist(), front.partition.sizes.tolist(), strict=True):
        if community in there or (community in absorbed and community not in split):
            continue
        children = split.get(community, ())
        kind: Kind = "split" if children else "died"
        yield CommunityEvent(kind, community, None, 0, size, children=children)
