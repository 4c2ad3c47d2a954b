"""Where a group reads on is what it has committed by now, not the answer to an older question."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka import errors as client

from stream_icd.kafka.client.connections import open_consumer
from stream_icd.kafka.client.workarounds import ConsumerParts
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from tests.kafka.echo import publish
from tests.testbed.brokers import Broker, KafkaNode, wait_until


@contextlib.contextmanager
def standing_still(node: KafkaNode) -> Iterator[None]:
    """The broker answers nothing for the length of the block."""
    with node.paused():
        time.sleep(0.5)  # until the last of its threads has stopped
        yield


class Stop(ConsumerRebalanceListener):  # type: ignore[misc]
    """Has the broker stand still, until the end of `pause`, when partitions are assigned."""

    def __init__(self, node: KafkaNode, pause: contextlib.ExitStack) -> None:
        self._node = node
        self._pause = pause
        self.assigned = False

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if assigned:  # at first the topic may not be known yet
            self._pause.enter_context(standing_still(self._node))
            self.assigned = True

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass


@pytest.fixture
def node(kafka: Broker) -> KafkaNode:
    if kafka.node is None:
        pytest.skip("it pauses the broker: unset STREAM_ICD_TEST_KAFKA, so that it is one of ours")
    return kafka.node


@pytest.fixture
def partition(kafka: Broker, topic_name: str) -> TopicPartition:
    """One that holds two records."""
    create_topics(kafka.settings(), [TopicSpec(topic_name)])
    publish(kafka.settings(), topic_name, 2)
    return TopicPartition(topic_name, 0)


@contextlib.contextmanager
def opened(broker: Broker) -> Iterator[Any]:
    consumer = open_consumer(broker.steady(), group_id="test-committed-offsets")
    try:
        yield consumer
    finally:
        consumer.close(timeout_ms=5000)


def poll(consumer: Any) -> Any:
    """As our member of a group does: without the second line, it may never join again."""
    records = consumer.poll(timeout_ms=100)
    ConsumerParts(consumer).keep_joining()
    return records


def position(consumer: Any, partition: TopicPartition) -> int | None:
    """Where it reads next; None where it does not know."""
    try:
        found: int | None = consumer.position(partition, timeout_ms=0)
    except client.KafkaError:
        return None
    return found


def commit(consumer: Any, partition: TopicPartition, offset: int) -> None:
    consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})


@pytest.mark.kafka
def test_a_committed_offset_is_asked_for_anew_after_a_timeout(
    kafka: Broker, node: KafkaNode, partition: TopicPartition
) -> None:
    with opened(kafka) as consumer:
        consumer.assign([partition])
        commit(consumer, partition, 1)
        with standing_still(node), pytest.raises(client.KafkaTimeoutError):
            consumer.committed(partition, timeout_ms=100)
        commit(consumer, partition, 2)  # the answer, 1, comes before that of the commit
        assert consumer.committed(partition) == 2


@pytest.mark.kafka
def test_a_partition_that_comes_back_is_read_from_where_another_member_has_come(
    kafka: Broker, node: KafkaNode, partition: TopicPartition
) -> None:
    with opened(kafka) as consumer, opened(kafka) as other:
        other.assign([partition])
        commit(other, partition, 1)
        with contextlib.ExitStack() as pause:
            stop = Stop(node, pause)
            consumer.subscribe([partition.topic], listener=stop)
            wait_until(lambda: poll(consumer) or stop.assigned)
            poll(consumer)  # asks for the committed offset
            assert position(consumer, partition) is None
        consumer.unsubscribe()
        commit(other, partition, 2)
        consumer.subscribe([partition.topic])
        wait_until(lambda: poll(consumer) or position(consumer, partition) is not None)
        assert position(consumer, partition) == 2
