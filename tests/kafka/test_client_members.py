"""What the client does wrong as a member of a group, and the workarounds prevent.

A group reads on where it has committed by now, not where the answer to an older question says. A
member that the broker has thrown out starts anew: it keeps no partition, and claims none.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from stream_icd.kafka.client.connections import open_consumer
from stream_icd.kafka.client.workarounds import ConsumerParts
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import TopicSpec
from stream_icd.kafka.topics import create_topics
from tests.kafka.echo import MakeTopic, Ours, publish
from tests.testbed.brokers import Broker, KafkaNode, wait_until


class Stop(ConsumerRebalanceListener):  # type: ignore[misc]
    """Has the broker stand still, until the end of `pause`, when partitions are assigned."""

    def __init__(self, node: KafkaNode, pause: contextlib.ExitStack) -> None:
        self._node = node
        self._pause = pause
        self.assigned = False

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        if assigned:  # at first the topic may not be known yet
            self._pause.enter_context(self._node.paused())
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
        return consumer.position(partition, timeout_ms=0)  # type: ignore[no-any-return]
    except client.KafkaError:
        return None


def commit(consumer: Any, partition: TopicPartition, offset: int) -> None:
    consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})


@pytest.mark.kafka
def test_an_answer_that_comes_too_late_does_not_say_where_a_partition_is_read(
    kafka: Broker, node: KafkaNode, partition: TopicPartition
) -> None:
    """Neither to who asks for what is committed, nor to a member to which it comes back."""
    with opened(kafka) as consumer:
        consumer.assign([partition])
        commit(consumer, partition, 3)
        with node.paused(), pytest.raises(client.KafkaTimeoutError):
            consumer.committed(partition, timeout_ms=100)
        commit(consumer, partition, 2)  # the answer, 3, comes before that of the commit
        assert consumer.committed(partition) == 2
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


def test_a_join_that_is_refused_is_prepared_again_and_claims_nothing(broker: Broker) -> None:
    consumer = open_consumer(
        broker.settings(),
        group_id="any",
        partition_assignment_strategy=(CooperativeStickyAssignor,),
    )
    try:
        consumer.subscribe(["t"])
        coordinator = consumer._coordinator
        (assignor,) = coordinator._assignors.values()
        assignor.member_assignment = [TopicPartition("t", 0)]
        consumer._subscription.assign_from_subscribed([TopicPartition("t", 0)])
        assert assignor.metadata({"t"}).owned_partitions
        coordinator.rejoining = True  # the join was prepared while the member was one

        coordinator.reset_generation()  # and the broker does not know it

        assert not coordinator.rejoining
        assert not assignor.metadata({"t"}).owned_partitions
    finally:
        consumer.close(timeout_ms=1000)


def test_a_member_that_is_stopped_while_it_joins_keeps_nobody_out(
    broker: Broker, make_topic: MakeTopic
) -> None:
    """The embedded broker kept its place for as long as a rebalance may last, five minutes."""
    topic = make_topic(partitions=3)
    port, group = connect(broker.settings()), f"group-{topic}"
    with contextlib.closing(port.member(group, 10, threading.Event())) as stopped:
        stopped.subscribe(topic, Ours())
        stopped.poll(0.2)
    with contextlib.closing(port.member(group, 10, threading.Event())) as member:
        member.subscribe(topic, ours := Ours())
        wait_until(lambda: member.poll(0.2) or len(ours.partitions) == 3, timeout_s=30)
