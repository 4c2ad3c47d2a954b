"""Topics are made with their settings, once; installations with a prefix do not see each other."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from stream_icd.core.errors import BadSettings, TopicMissing
from stream_icd.kafka.connect import connect
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.port import TopicPartition, TopicSpec, Undecodable
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import (
    COMMUNITIES,
    DEFAULT_TOPICS,
    SNAPSHOTS,
    create_topics,
    describe_topic,
    positions,
)
from stream_icd.streaming.dead_letters.letters import DeadLetterLimit
from stream_icd.streaming.subscribers.subscribe import subscribe_events
from stream_icd.streaming.workers.runner import Runner
from stream_icd.streaming.workers.track import Tracker
from tests.streaming.workers.tracked import outgoing, same, stream, unbroken
from tests.testbed.brokers import Broker
from tests.testbed.streams import beside, publish

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")


def test_a_missing_topic_says_how_to_create_it_or_that_its_name_may_be_wrong(
    broker: Broker, topic_name: str
) -> None:
    with pytest.raises(TopicMissing, match=f"{topic_name} at .*: create it, or name another one"):
        describe_topic(broker.settings(), topic_name)
    with memory_broker() as empty, pytest.raises(TopicMissing, match="stream-icd topics create"):
        describe_topic(KafkaSettings(bootstrap_servers=empty.bootstrap_servers), SNAPSHOTS)


@pytest.mark.parametrize("wrong", [{"name": "a b"}, {"name": ""}, {"name": "a", "partitions": 0}])
def test_an_impossible_topic_is_refused_before_anything_connects(wrong: dict[str, object]) -> None:
    with pytest.raises(BadSettings):
        TopicSpec(**wrong)  # type: ignore[arg-type]


@pytest.mark.kafka
def test_a_setting_that_the_broker_refuses_is_named(kafka: Broker, topic_name: str) -> None:
    with pytest.raises(BadSettings, match=r"cleanup\.policy"):
        create_topics(kafka.settings(), [TopicSpec(topic_name, cleanup_policy="shred")])


N_WINDOWS, GROUP = 8, "stream-icd-track"


def track_all(broker: Broker, stop: threading.Event) -> None:
    """A tracker with the usual names, all of which another one on this broker has too."""
    settings = broker.settings(instance_id="tracker-0")
    runner = Runner(Tracker(settings), DeadLetterLimit())
    run_consumer(settings, COMMUNITIES, GROUP, runner, stop)


def test_two_installations_side_by_side(broker: Broker, topic_name: str) -> None:
    tenants = [replace(broker, prefix=f"{topic_name}-{team}.") for team in "ab"]
    streams = [stream("g", N_WINDOWS, seed) for seed in (3, 4)]
    names = [spec.name for spec in DEFAULT_TOPICS]
    for tenant, windows in zip(tenants, streams, strict=True):
        assert create_topics(tenant.settings()) == names
        publish(tenant, [outgoing(window, COMMUNITIES) for window in windows])
    with ExitStack() as running:
        errors = [running.enter_context(beside(partial(track_all, tenant))) for tenant in tenants]
        found = [
            list(subscribe_events(start="beginning", limit=N_WINDOWS, settings=tenant.settings()))
            for tenant in tenants
        ]
    assert errors == [[], []]
    for tenant, windows, events in zip(tenants, streams, found, strict=True):
        assert same(events, unbroken(windows))
        position = positions(tenant.settings(), COMMUNITIES, GROUP)
        assert sum(position.values()) >= N_WINDOWS
        topic, group = f"{tenant.prefix}{COMMUNITIES}", f"{tenant.prefix}{GROUP}"
        assert positions(broker.settings(), topic, GROUP) == {}
        assert positions(broker.settings(), topic, group) == position
    with connect(tenants[0].settings()).admin() as admin:
        assert admin.topic_names() == sorted(names)
    with connect(broker.settings()).admin() as admin:
        everything = {f"{tenant.prefix}{name}" for tenant in tenants for name in names}
        assert everything <= set(admin.topic_names())


def test_an_error_names_the_topic_as_the_broker_has_it(tenant: Broker) -> None:
    with pytest.raises(TopicMissing, match="there is no topic team-a.nowhere at"):
        describe_topic(tenant.settings(), "nowhere")


def test_what_cannot_be_decoded_is_in_our_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    class Damaged:
        def reader(self, _: object) -> Damaged:
            return self

        def poll(self, *_: object) -> None:
            raise Undecodable("damaged", TopicPartition("team-a.t", 3), 7)

    monkeypatch.setattr("stream_icd.kafka.connect._reached", lambda _: Damaged())
    with pytest.raises(Undecodable) as error:
        connect(KafkaSettings(topic_prefix="team-a.")).reader().poll(0.0)
    assert (error.value.partition, error.value.end) == (TopicPartition("t", 3), 7)
