"""Streams of communities for the tracker's tests, and what an unbroken tracker says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Self

import numpy as np

from stream_icd.core.communities import Communities
from stream_icd.core.errors import RecordTooLarge
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Window
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages import records
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.streaming.workers.runner import Runner
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.events import decode_events, encode_events
from tests.testbed import windows
from tests.testbed.brokers import Broker
from tests.testbed.streams import held, publish

START = datetime(2020, 1, 1, tzinfo=UTC)
SETTINGS = LfrSettings(n_nodes=300, max_degree=30, max_community=60)


@cache
def drifting(seed: int, n: int) -> list[np.ndarray]:
    stream = generate_drifting_lfr(seed, n, SETTINGS, event_rate=0.3)
    return [graph.communities for graph, _ in stream]


def window(graph: str, hour: int, labels: object, model: str = "m@1") -> Communities:
    """The communities of one hour; nodes are 0, 1, 2, …"""
    found, start = windows.window(hour, labels, model=model), START + hour * windows.HOUR
    of_hour = Window(start, start + windows.HOUR)
    return replace(found, graph=graph, snapshot_id=f"{graph}/{hour}", window=of_hour)


def stream(graph: str, n: int, seed: int = 3) -> list[Communities]:
    """`n` hours of communities that drift, merge, split, are born and die."""
    return [window(graph, hour, labels) for hour, labels in enumerate(drifting(seed, n))]


def unbroken(hours: Iterable[Communities]) -> list[CommunityEvents]:
    """What a tracker says that is never interrupted."""
    return windows.follow(hours)


def outgoing(window: Communities | CommunityEvents, topic: str) -> OutgoingRecord:
    is_found = isinstance(window, Communities)
    return records.outgoing(
        topic, encode_communities(window) if is_found else encode_events(window)
    )


@dataclass(frozen=True)
class Bench:
    """Topics of one test's own: steps read one (which has dead letters), and publish to another."""

    broker: Broker
    source: str
    target: str

    @classmethod
    def opened(cls, broker: Broker, name: str, partitions: int = 1) -> Self:
        source, target = TopicSpec(name, partitions), TopicSpec(f"{name}.out", partitions)
        create_topics(broker.settings(), [*source.with_dead_letters(), target])
        return cls(broker, source.name, target.name)

    def sent(
        self, windows: Iterable[Communities | CommunityEvents | OutgoingRecord]
    ) -> list[Record]:
        """Publish windows, or records as they are, to the source; return their records."""
        before = len(held(self.broker, self.source))
        made = (w if isinstance(w, OutgoingRecord) else outgoing(w, self.source) for w in windows)
        publish(self.broker, made)
        return held(self.broker, self.source)[before:]

    def work(self, runner: Runner, records: Sequence[Record]) -> tuple[OutgoingRecord, ...]:
        """A batch that succeeds: handled, published, committed."""
        made = tuple(runner.handle(records))
        publish(self.broker, made)
        runner.done(BatchDone(tuple(records), made, 0.0))
        return made

    def refusing(self, *refused: bool) -> ClaimCheck:
        """A check by which records of the target are too large, one after the other, or fit."""
        settings, target, left = self.broker.settings(), self.target, iter(refused)

        class Refusing(ClaimCheck):
            def __call__(self, record: OutgoingRecord) -> OutgoingRecord:
                if record.topic == target and next(left, False):
                    raise RecordTooLarge("5 bytes are above 4", record.topic, 5)
                return record

        return Refusing(settings)

    @property
    def events(self) -> list[CommunityEvents]:
        """Every message of events in the target, repeated ones too."""
        found = [record for record in held(self.broker, self.target) if record.value]
        return [decode_events(record.key, record.value, record.headers) for record in found]


def same(one: Iterable[CommunityEvents], other: Iterable[CommunityEvents]) -> bool:
    """Whether they are equal to the byte, as messages."""
    return list(map(encode_events, one)) == list(map(encode_events, other))
