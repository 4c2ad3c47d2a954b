"""Topics: made with their settings, once."""

from dataclasses import replace

import pytest

from stream_icd.core.errors import BadSettings, TopicMissing
from stream_icd.kafka.in_process.broker import memory_broker
from stream_icd.kafka.port import TopicSpec, dead_letter_topic
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import DEFAULT_TOPICS, SNAPSHOTS, create_topics, describe_topic
from tests.testbed.brokers import Broker

pytestmark = pytest.mark.brokers("memory", "embedded", "kafka")


def test_topics_are_created_once_with_their_settings(broker: Broker, topic_name: str) -> None:
    specs = TopicSpec(topic_name, partitions=3, max_message_bytes=2_000_000).with_dead_letters()
    assert create_topics(broker.settings(), specs) == [topic_name, f"{topic_name}.dlq"]
    other = replace(specs[0], partitions=5, max_message_bytes=1_000_000)
    assert create_topics(broker.settings(), [other, *specs]) == []  # they stay as they are
    existing = describe_topic(broker.settings(), topic_name)
    assert (existing.partitions, existing.max_message_bytes) == (3, 2_000_000)


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


def test_every_topic_of_results_and_inputs_has_a_place_for_dead_letters() -> None:
    names = {spec.name for spec in DEFAULT_TOPICS}
    assert {SNAPSHOTS, dead_letter_topic(SNAPSHOTS)} <= names
    assert len(names) == len(DEFAULT_TOPICS)
