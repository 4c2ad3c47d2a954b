"""A transaction commits the offsets that were given to it, and no others."""

from __future__ import annotations

import pytest
from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.structs import ConsumerGroupMetadata

from stream_icd.core.errors import BadSettings
from stream_icd.kafka.client.connections import open_admin, open_producer
from stream_icd.kafka.delivery.delivery import open_sink
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from tests.testbed.brokers import Broker


@pytest.mark.kafka
def test_offsets_that_were_refused_do_not_go_into_the_next_transaction(
    kafka: Broker, topic_name: str
) -> None:
    settings, group = kafka.steady(), f"group-{topic_name}"
    create_topics(settings, [TopicSpec(topic_name, partitions=2)])
    lost, ours = TopicPartition(topic_name, 0), TopicPartition(topic_name, 1)
    thrown_out = ConsumerGroupMetadata(group_id=group, generation_id=7, member_id="thrown out")
    producer = open_producer(settings, transactional_id=topic_name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(client.CommitFailedError):
            producer.send_offsets_to_transaction({lost: OffsetAndMetadata(3, "", -1)}, thrown_out)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({ours: OffsetAndMetadata(5, "", -1)}, group)
        producer.commit_transaction()
    finally:
        producer.close(timeout=5)
    with open_admin(settings) as admin:
        committed = admin.list_group_offsets(group)[group]
    assert {partition: at.offset for partition, at in committed.items()} == {ours: 5}


@pytest.mark.kafka
def test_a_timeout_that_the_broker_does_not_allow_is_named_with_its_setting(kafka: Broker) -> None:
    """By default it allows 900 s, as our settings do."""
    settings = kafka.settings().model_copy(update={"transaction_timeout_s": 901.0})
    with pytest.raises(BadSettings, match="change STREAM_ICD_TRANSACTION_TIMEOUT_S to at most"):
        open_sink(settings, "exactly-once", "group", "instance")
