"""Lifecycle events of communities between two windows, given their identities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from stream_icd.events import CommunityEvent, CommunityEvents, Kind
from stream_icd.tracking.flows import Relatives, absorbed_lately, children_of, parents_of
from stream_icd.tracking.identities import Front, History, Identities
from stream_icd.tracking.partition import Partition
from stream_icd.tracking.settings import TrackSettings


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

    Args:
        history: the windows before, compared with the new one.
        recent: the same windows, to look back on; empty: only the last one counts.
    """
    origins = parents_of(history, known.ids, recent, settings)
    heirs = children_of(history, known, recent, origins, settings)
    merged = {community: all_of for community, all_of in origins.items() if len(all_of) > 1}
    split = {community: all_of for community, all_of in heirs.items() if len(all_of) > 1}
    out_of = {child: parent for parent, children in split.items() for child in children}
    living = (
        event
        for at in range(len(known.ids))
        for event in _of_living(at, known, partition, merged, split, out_of, settings)
    )
    absorbed = absorbed_lately(recent).union(*merged.values())
    return tuple(chain(living, _of_ended(history[0], known, absorbed, split)))


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
