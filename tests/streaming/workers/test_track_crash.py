"""A tracker that is killed in the middle of its work tells the same, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_icd.kafka.topics import COMMUNITIES, EVENTS, create_topics
from stream_icd.streaming.subscribers.subscribe import subscribe_events
from tests.streaming.workers.tracked import outgoing, same, stream, unbroken
from tests.testbed.brokers import Broker
from tests.testbed.starting import consuming
from tests.testbed.streams import held, publish

N_WINDOWS = 40
N_LATE = 10  # sent after the kill: work for the second, however much the first had done by then


@pytest.mark.brokers("kafka")
def test_kill_9_of_a_tracker(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    graph = topic_name  # a graph of this test's own in the live topics
    create_topics(broker.settings())
    hours = stream(graph, N_WINDOWS)
    messages = [outgoing(hour, COMMUNITIES) for hour in hours]
    publish(broker, messages[:-N_LATE])
    results = subscribe_events(
        graph, start="beginning", limit=N_WINDOWS, settings=broker.settings()
    )
    with consuming(broker, graph, tmp_path / "first.log", "track", "--batch", "4"):
        received = [next(results) for _ in range(N_WINDOWS // 4)]
    publish(broker, messages[-N_LATE:])
    with consuming(broker, graph, tmp_path / "second.log", "track", "--batch", "4") as second:
        received += list(results)
        second.terminate()
        assert second.wait(30) == 0, (tmp_path / "second.log").read_text()
    assert same(received, unbroken(hours))
    # Exactly once: no reader has anything to drop.
    assert sum(record.key == graph.encode() for record in held(broker, EVENTS)) == N_WINDOWS
