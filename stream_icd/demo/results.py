"""What a demonstration found: its results over time, each snapshot alone, and the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.communities import Communities
from stream_icd.demo.run import Arrival, DemoRun
from stream_icd.detection.detect import Method, detect
from stream_icd.events import CommunityEvents
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import LABELS, SNAPSHOTS
from stream_icd.messages.claims import Content, Decode, MessageReader
from stream_icd.model import Model
from stream_icd.quality.agreement import nmi
from stream_icd.snapshot import Snapshot, Window
from stream_icd.tracking.track import remember, track
from stream_icd.wire.communities import decode_labels
from stream_icd.wire.snapshots import decode_snapshot

PART = 2 / 3
"""Fraction of the nodes of its neighbours below which a snapshot is incomplete."""

NEAR = 30
"""How many snapshots before and after one are its neighbours: a longer gap is a change."""

Known = Mapping[str, NDArray[np.int32]]
"""The known communities of each snapshot, by its id."""


@dataclass(frozen=True, slots=True)
class Found:
    """The communities of all snapshots, detected in one way.

    Attributes:
        windows: those of the complete snapshots, with stable ids across windows.
        agreement: NMI of each snapshot with the ground truth; empty if it is unknown.
    """

    windows: Sequence[CommunityEvents]
    agreement: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """All that was found.

    Attributes:
        incomplete: snapshots that lack nodes at the source, by id; `found` and `alone` lack them.
        alone: the same of each snapshot alone; None if the detector has no memory.
    """

    incomplete: list[str]
    found: Found
    alone: Found | None


def results_of(
    settings: KafkaSettings, run: DemoRun, model_of: Callable[[str], Model], method: Method
) -> Results:
    """Return what was found, from the arrivals and the topics of a run, and models by version."""
    known = known_communities(settings)
    results = [communities_of(arrival) for arrival in run.arrivals]
    complete = complete_places([len(result.nodes) for result in results])

    def followed(each: Sequence[Communities]) -> Found:
        return Found(tracked(each[place] for place in complete), agreement(known, each))

    alone = None
    if results[-1].community_ids is not None:
        alone = followed(list(_found_alone(settings, results, cache(model_of), method)))
    left_out = [
        communities.snapshot_id for at, communities in enumerate(results) if at not in set(complete)
    ]
    return Results(left_out, followed(results), alone)


def tracked(results: Iterable[Communities]) -> list[CommunityEvents]:
    """Return the communities of each result, with stable ids across windows."""
    recent: Sequence[CommunityEvents] = ()
    found: list[CommunityEvents] = []
    for result in results:
        events = track(recent, result)
        recent = remember(recent, events)
        found += [] if events.late else [events]
    return found


def communities_of(arrival: Arrival) -> Communities:
    """Return the result that the subscriber printed."""
    result = arrival.result
    start, end = (datetime.fromisoformat(result[f"window_{side}"]) for side in ("start", "end"))
    ids, replaced, moved = (result[name] for name in ("community_ids", "replaced", "moved"))
    return Communities(
        graph=result["graph"],
        snapshot_id=result["snapshot_id"],
        window=Window(start, end),
        nodes=pa.array(result["nodes"]),
        labels=np.asarray(result["communities"], np.int32),
        n_edges=result["n_edges"],
        model=result["model"],
        modularity=result["modularity"],
        ncut=result["ncut"],
        milliseconds=result["milliseconds"],
        detected_at=datetime.fromisoformat(result["detected_at"]),
        community_ids=None if ids is None else np.asarray(ids, np.int64),
        replaced=None if ids is None else np.asarray(replaced, np.int64).reshape(-1, 2),
        moved=None if moved is None else np.asarray(moved, np.int64).reshape(-1, 2),
        moved_bits=None if moved is None else np.asarray(result["moved_bits"], np.float64),
    )


def _found_alone(
    settings: KafkaSettings,
    results: Sequence[Communities],
    model_of: Callable[[str], Model],
    method: Method,
) -> Iterator[Communities]:
    """Yield each result with the communities that would be found without memory."""
    by_id = {result.snapshot_id: result for result in results}
    for snapshot in snapshots(settings):
        if (before := by_id.get(snapshot.id)) is not None:
            model, n_communities = model_of(before.model), snapshot.n_communities
            found = detect(snapshot.adjacency(), model, n_communities, method=method)
            yield replace(before, labels=found.communities, community_ids=None, replaced=None)


def snapshots(settings: KafkaSettings) -> Iterator[Snapshot]:
    """Yield the snapshots of the snapshots topic."""
    return _decoded(settings, SNAPSHOTS, decode_snapshot)


def known_communities(settings: KafkaSettings) -> Known:
    """Return the known communities of all snapshots that have some."""
    return {
        labels.snapshot_id: labels.labels for labels in _decoded(settings, LABELS, decode_labels)
    }


def _decoded(settings: KafkaSettings, topic: str, decode: Decode[Content]) -> Iterator[Content]:
    reader = MessageReader()
    with open_reader(settings, topic, start="beginning", until="end") as records:
        for record in records:
            yield reader.decoded(record, decode)


def agreement(known: Known, results: Sequence[Communities]) -> list[float]:
    """Return the NMI of each result with the known communities; empty unless all are known."""
    if not all(result.snapshot_id in known for result in results):
        return []
    return [nmi(known[result.snapshot_id], result.labels) for result in results]


def complete_places(sizes: Sequence[int]) -> list[int]:
    """Return the positions of the complete snapshots, ascending.

    A topology of the Internet that loses half of its nodes for some days, and has them again later,
    was not collected completely. What seems to happen to its communities then did not happen.

    A snapshot is incomplete if it has less than `PART` of the nodes of some snapshot among the
    `NEAR` before it, and of some among the `NEAR` after it. So a system that grows or shrinks for
    good is complete; for the last snapshots, only those before them tell.
    """
    return [at for at in range(len(sizes)) if not _is_incomplete(sizes, at)]


def _is_incomplete(sizes: Sequence[int], at: int) -> bool:
    before, after = sizes[max(0, at - NEAR) : at], sizes[at + 1 : at + 1 + NEAR]
    sides = [max(side) for side in (before, after) if side]
    return bool(before) and sizes[at] < PART * min(sides)
