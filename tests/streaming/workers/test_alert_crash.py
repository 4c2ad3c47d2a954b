"""A worker of alerts that is killed: each event is one alert, and nothing is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_icd.kafka.messages.records import outgoing
from stream_icd.kafka.topics import ALERTS, EVENTS, create_topics
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.rules import Rule
from stream_icd.wire.events import encode_events
from tests.streaming.workers.tracked import stream, unbroken
from tests.testbed.brokers import Broker
from tests.testbed.starting import consuming
from tests.testbed.streams import held, publish
from tests.testbed.webhook import webhook

N_WINDOWS, N_LATE = 24, 8
RULE, LASTING = "merged or split or (born and size > 2)", 1


@pytest.mark.brokers("kafka")
def test_kill_9_of_a_worker_of_alerts(broker: Broker, topic_name: str, tmp_path: Path) -> None:
    graph, windows = topic_name, unbroken(stream(topic_name, N_WINDOWS))
    told = Alerting([Rule.parse(RULE, lambda _: frozenset())], LASTING, graph)
    ends = range(1, N_WINDOWS + 1)
    parts = [windows[max(end - told.windows, 0) : end] for end in ends]
    ids = [alert.id for part in parts for alert in told.alerts(part)]
    create_topics(broker.settings())
    messages = [outgoing(EVENTS, encode_events(window)) for window in windows]
    publish(broker, messages[:-N_LATE])
    with webhook() as at:
        options = ("--rule", RULE, "--to", at.url, "--confirmed", str(LASTING))
        options += ("--batch", "4", "--oldest", "36500d")
        with consuming(broker, graph, tmp_path / "first.log", "alert", *options):
            at.wait_for(3)
        publish(broker, messages[-N_LATE:])
        with consuming(broker, graph, tmp_path / "second.log", "alert", *options) as second:
            with at.came:
                assert at.came.wait_for(lambda: {one["id"] for one in at.taken()} == set(ids), 90)
            second.terminate()
            assert second.wait(30) == 0, (tmp_path / "second.log").read_text()
        received = [alert["id"] for alert in at.taken()]
    # Killed between the answer and the commit, a worker sends one alert again.
    assert len(received) - len(ids) in (0, 1)
    assert list(dict.fromkeys(received)) == ids
    topic = [dict(record.headers)["ce_id"].decode() for record in held(broker, ALERTS)
             if record.key == graph.encode()]  # fmt: skip
    assert topic == ids
