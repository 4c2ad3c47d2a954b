"""Streams of communities for the tracker's tests, and what an unbroken tracker says of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pyarrow as pa

from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking.track import remember, track
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import decode_events, encode_events
from tests.testbed.brokers import Broker
from tests.testbed.streams import held

START = datetime(2020, 1, 1, tzinfo=UTC)
SETTINGS = LfrSettings(n_nodes=300, max_degree=30, max_community=60)


@cache
def drifting(seed: int, n: int) -> list[np.ndarray]:
    stream = generate_drifting_lfr(seed, n, SETTINGS, event_rate=0.3)
    return [graph.communities for graph, _ in stream]


def window(graph: str, hour: int, labels: object, model: str = "m@1") -> Communities:
    """The communities of one hour; nodes are 0, 1, 2, …"""
    found = np.asarray(labels, np.int32)
    start = START + timedelta(hours=hour)
    return Communities(
        graph=graph,
        snapshot_id=f"{graph}/{hour}",
        window=Window(start, start + timedelta(hours=1)),
        nodes=pa.array(np.arange(len(found))),
        labels=found,
        n_edges=1,
        model=model,
        modularity=0.0,
        ncut=0.0,
        milliseconds=dict.fromkeys(STAGES, 0.0),
        detected_at=START,
    )


def stream(graph: str, n: int, seed: int = 3) -> list[Communities]:
    """`n` hours of communities that drift, merge, split, are born and die."""
    return [window(graph, hour, labels) for hour, labels in enumerate(drifting(seed, n))]


def unbroken(windows: Iterable[Communities]) -> list[CommunityEvents]:
    """What a tracker says that is never interrupted."""
    recent: tuple[CommunityEvents, ...] = ()
    tracked = []
    for one in windows:
        tracked.append(track(recent, one))
        recent = remember(recent, tracked[-1])
    return tracked


def outgoing(communities: Communities, topic: str) -> OutgoingRecord:
    message = encode_communities(communities)
    return OutgoingRecord(topic, message.value, message.key, message.headers)


def events_in(broker: Broker, topic: str) -> list[CommunityEvents]:
    """Every message of the topic, repeated ones too."""
    return [decode_events(r.key, r.value, r.headers) for r in held(broker, topic)]


def same(one: Iterable[CommunityEvents], other: Iterable[CommunityEvents]) -> bool:
    """Whether they are equal to the byte, as messages."""
    return list(map(encode_events, one)) == list(map(encode_events, other))
