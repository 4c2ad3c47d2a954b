"""What a tracker keeps is counted in bytes, and limited, whatever its messages hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from stream_icd.core import snapshot
from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import create_topics
from stream_icd.methods.tracking.packed import PackedWindow
from stream_icd.methods.tracking.track import track
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.events_topic import forget_graph
from stream_icd.streaming.workers.recent_windows import RecentWindows, Unpacked
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from stream_icd.wire.events import decode_events, encode_events
from tests.streaming.workers.tracked import events_in, outgoing, same, stream, unbroken, window
from tests.testbed.brokers import Broker
from tests.testbed.streams import held, publish

pytestmark = pytest.mark.brokers("memory")

Topics = tuple[str, str]


@pytest.fixture
def topics(memory: Broker, topic_name: str) -> Topics:
    found, events = TopicSpec(topic_name), TopicSpec(f"{topic_name}.events")
    create_topics(memory.settings(), [*found.with_dead_letters(), events])
    return topic_name, f"{topic_name}.events"


def tracker(broker: Broker, topic: str, cache_bytes: int = 1 << 30) -> Tracker:
    return Tracker(broker.settings(), topic=topic, memory=MemorySettings(cache_bytes=cache_bytes))


def work(broker: Broker, step: Tracker, records: Sequence[Record]) -> None:
    """A batch that succeeds: handled, published, committed."""
    worker = Runner(step, DeadLetterLimit())
    sent = tuple(worker.handle(records))
    publish(broker, sent)
    worker.done(BatchDone(tuple(records), sent, 0.0))


def long_ids(graph: str, hour: int, size: int = 4000, count: int = 1000) -> Communities:
    """A window whose ids take megabytes, and its message some kilobytes."""
    nodes = pa.array([f"{node:05d}{'a' * (size - 5)}" for node in range(count)])
    return replace(window(graph, hour, np.arange(count) % 2), nodes=nodes)


def test_a_packed_window_takes_few_bytes_and_is_the_same() -> None:
    tracked = track((), long_ids("g", 0))
    packed = PackedWindow.of(tracked)
    assert same([packed.whole()], [tracked])
    assert packed.n_bytes < tracked.n_bytes / 100
    assert tracked.n_bytes > tracked.nodes.nbytes > 4_000_000
    assert packed.identity() == tracked.identity()


def test_the_longest_unused_graphs_and_windows_are_let_go() -> None:
    windows = [PackedWindow.of(track((), one)) for one in stream("g", 1)]
    size = windows[0].n_bytes
    recent = RecentWindows(most_bytes=2 * size)
    for graph in ("a", "b", "a", "c"):
        recent.put(graph, tuple(windows))
    assert (recent.get("a"), recent.get("b")) == (tuple(windows), ())
    assert (recent.let_go, recent.n_bytes) == ({"b"}, 2 * size)
    recent.put("d", tuple(3 * windows))  # alone it is too much, and kept nevertheless
    assert (recent.let_go, recent.n_bytes) == ({"a", "b", "c"}, 3 * size)

    many = [PackedWindow.of(track((), long_ids("g", 0))) for _ in range(3)]
    unpacked = Unpacked(most_bytes=10_000_000)
    assert unpacked.all(many[:1])[0] is unpacked.all(many[:1])[0]
    assert len(unpacked.all(many)) == 3
    assert unpacked.n_bytes < 10_000_000


@pytest.mark.parametrize("cache_bytes", [1, 20_000])
def test_graphs_that_were_let_go_continue_as_if_they_had_been_kept(
    memory: Broker, topics: Topics, cache_bytes: int
) -> None:
    streams = [stream(graph, 6, seed) for graph, seed in (("a", 3), ("b", 4), ("c", 5))]
    in_turns = [one for hour in zip(*streams, strict=True) for one in hour]
    publish(memory, [outgoing(communities, topics[0]) for communities in in_turns])
    records = held(memory, topics[0])
    step = tracker(memory, topics[1], cache_bytes)
    for start in range(0, len(records), 4):
        if start == 8:  # it reads the topic anew, with the same limit
            step = tracker(memory, topics[1], cache_bytes)
        work(memory, step, records[start : start + 4])
    tracked = events_in(memory, topics[1])
    for name, each in zip("abc", streams, strict=True):
        assert same([events for events in tracked if events.graph == name], unbroken(each))


def test_a_graph_that_was_let_go_and_started_anew_stays_so(memory: Broker, topics: Topics) -> None:
    a, b = stream("a", 4), stream("b", 2, seed=4)
    publish(memory, [outgoing(one, topics[0]) for one in (*a[:2], *b, *a[2:])])
    records = held(memory, topics[0])
    step = tracker(memory, topics[1], 1)
    work(memory, step, records[:4])
    publish(memory, [forget_graph("a", topics[1])])
    step.assigned([0])
    work(memory, step, records[4:])
    again = [events for events in events_in_order(memory, topics[1]) if events.graph == "a"][2:]
    assert {event.kind for event in again[0].events} == {"born"}
    assert min(again[0].communities) >= unbroken(a)[1].next_community


def events_in_order(broker: Broker, topic: str) -> list[CommunityEvents]:
    records = (record for record in held(broker, topic) if record.value is not None)
    return [decode_events(one.key, one.value, one.headers) for one in records]


def test_windows_with_ids_of_megabytes_are_left_out_when_a_tracker_starts(
    memory: Broker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions published them, and could not start any more."""
    with monkeypatch.context() as before:
        before.setattr(snapshot, "MOST_NODE_BYTES", 1 << 30)
        message = encode_events(track((), long_ids("big", 0, 2_000_000, 2)))
        refused = outgoing(long_ids("big", 1, 2_000_000, 2), topics[0])
    old = OutgoingRecord(topics[1], message.value, message.key, message.headers)
    publish(memory, [old])
    publish(memory, [refused, *(outgoing(one, topics[0]) for one in stream("g", 2))])
    with capture_logs() as log:
        work(memory, tracker(memory, topics[1]), held(memory, topics[0]))
    reasons = [line["reason"] for line in log if line["event"] == "not an events message"]
    assert len(reasons) == 1
    assert "has 2000000 bytes; the limit is 4096: send a shorter id" in reasons[0]
    letters = [line for line in log if line["event"] == "dead letter"]
    assert len(letters) == 1
    rest = [record for record in held(memory, topics[1]) if record.key == b"g"]
    assert len(rest) == 2
