"""What `subscribe` yields: each result once, the ones asked for, from where it was asked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from stream_icd import subscribe
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BrokerUnavailable, TopicMissing
from stream_icd.core.snapshot import Window
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.wire.communities import encode_communities
from tests.testbed.brokers import Broker

pytestmark = pytest.mark.brokers("memory")

START = datetime(2026, 1, 1, tzinfo=UTC)


def communities(i: int, graph: str = "g", model: str = "m@1") -> Communities:
    return Communities(
        graph=graph,
        snapshot_id=f"{graph}/{i}",
        window=Window(START, START),
        nodes=pa.array([1, 2]),
        labels=np.array([0, 1], np.int32),
        n_edges=1,
        model=model,
        modularity=0.0,
        ncut=1.0,
        milliseconds={"decode": 1.0, "features": 1.0, "encode": 1.0, "cluster": 1.0},
        detected_at=START,
    )


def publish(broker: Broker, topic: str, *results: Communities, timestamp_ms: int = 0) -> None:
    with Publisher(broker.settings()) as publisher:
        for result in results:
            message = encode_communities(result)
            publisher.send(
                OutgoingRecord(
                    topic,
                    message.value,
                    message.key,
                    message.headers,
                    timestamp_ms=timestamp_ms or None,
                )
            )


def ids(broker: Broker, topic: str, **options: object) -> list[str]:
    everything = {"start": "beginning", "until": "end", "settings": broker.settings()}
    subscription = subscribe(**(everything | options), topic=topic)  # type: ignore[arg-type]
    return [one.snapshot_id for one in subscription]


def test_a_result_that_was_published_twice_is_seen_once(broker: Broker, make_topic) -> None:
    topic = make_topic()
    first, second = communities(1), communities(2)
    publish(broker, topic, first, second, first, replace(first, model="m@2"), second)
    assert ids(broker, topic) == ["g/1", "g/2", "g/1"]


def revised(one: Communities, revision: str, place: str = "") -> Communities:
    """Another revision of a result, made from the record of its snapshot at that place."""
    return replace(one, revision=revision, snapshot_place=place)


def revisions(broker: Broker, topic: str, **options: object) -> list[str]:
    everything = {"start": "beginning", "until": "end", "settings": broker.settings()}
    subscription = subscribe(**(everything | options), topic=topic)  # type: ignore[arg-type]
    return [f"{one.snapshot_id} {one.revision}" for one in subscription]


def test_a_correction_is_no_repetition_and_the_newest_revision_is_seen(
    broker: Broker, make_topic
) -> None:
    topic, one, two = make_topic(partitions=2), communities(1), communities(2)
    first, second = revised(one, "a", "0@0"), revised(one, "b", "0@2")
    # A restarted detector publishes the old revision and the new one once more.
    publish(broker, topic, first, two, second, first, second, revised(one, "b", "0@3"))
    assert revisions(broker, topic) == ["g/2 ", "g/1 b"]
    assert revisions(broker, topic, revisions="all") == ["g/1 a", "g/2 ", "g/1 b"]
    assert ids(broker, topic, model="m@2") == ids(broker, topic, model="n") == []
    assert ids(broker, topic, model="m") == ids(broker, topic, model="m@1") == ["g/2", "g/1"]


def test_a_correction_that_is_taken_back_is_seen(broker: Broker, make_topic) -> None:
    topic, one = make_topic(), communities(1)
    publish(broker, topic, *(revised(one, *r) for r in (("a", "0@0"), ("b", "0@1"), ("a", "0@2"))))
    assert revisions(broker, topic) == ["g/1 a"]
    assert revisions(broker, topic, revisions="all") == ["g/1 a", "g/1 b", "g/1 a"]


def test_a_correction_of_what_was_seen_comes_when_it_is_published(
    broker: Broker, make_topic
) -> None:
    topic, one = make_topic(), communities(1)
    publish(broker, topic, revised(one, ""))  # of a program that says no revision
    with subscribe(start="beginning", topic=topic, settings=broker.settings()) as subscription:
        assert next(subscription).revision == ""
        publish(broker, topic, revised(one, ""), revised(one, "a"), communities(2))
        assert [
            (each.snapshot_id, each.revision) for each in (next(subscription), next(subscription))
        ] == [
            ("g/1", "a"),
            ("g/2", ""),
        ]


def test_only_the_graph_asked_for(broker: Broker, make_topic) -> None:
    topic = make_topic(partitions=3)
    publish(broker, topic, *(communities(i, graph) for i in range(4) for graph in ("a", "b")))
    assert ids(broker, topic, graph="b") == ["b/0", "b/1", "b/2", "b/3"]
    assert ids(broker, topic, graph="b", limit=2) == ["b/0", "b/1"]
    assert ids(broker, topic, graph="c") == []


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_from_a_time(broker: Broker, make_topic) -> None:
    topic = make_topic()
    # Recent times: Kafka counts a topic's retention from the records' own.
    first = datetime.now(UTC) - timedelta(hours=1)
    for i in range(4):
        sent_at = first + timedelta(minutes=i)
        publish(broker, topic, communities(i), timestamp_ms=int(sent_at.timestamp() * 1000))
    assert ids(broker, topic, start=first + timedelta(minutes=1.5)) == ["g/2", "g/3"]


def test_a_message_of_another_kind_is_told_and_passed_over(broker: Broker, make_topic) -> None:
    topic = make_topic()
    publish(broker, topic, communities(1))
    with Publisher(broker.settings()) as publisher:
        publisher.send(OutgoingRecord(topic, b"?", b"g"))
    publish(broker, topic, communities(2))
    reported: list[str] = []
    found = ids(
        broker, topic, on_bad=lambda record, error: reported.append(f"{record.offset} {error}")
    )
    assert found == ["g/1", "g/2"]
    assert reported == ["1 header ce_specversion is missing or empty"]


@pytest.mark.brokers("memory", "embedded", "kafka")
def test_a_missing_topic_is_named(broker: Broker, topic_name: str) -> None:
    with pytest.raises(TopicMissing, match=f"there is no topic {topic_name}"):
        ids(broker, topic_name)


def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    nobody = KafkaSettings(bootstrap_servers="127.0.0.1:1", connect_timeout_s=0.5)
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:1"):
        next(subscribe(settings=nobody))
