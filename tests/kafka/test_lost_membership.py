"""A member that the broker has thrown out starts anew: it keeps no partition, and claims none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from stream_icd.kafka.client.connections import open_consumer
from stream_icd.kafka.connect import connect
from tests.testbed.brokers import Broker, wait_until


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


class Mine:
    """Notes which partitions are ours."""

    def __init__(self) -> None:
        self.partitions: set[object] = set()

    def assigned(self, partitions: Collection[object]) -> None:
        self.partitions |= set(partitions)

    def revoked(self, partitions: Collection[object]) -> None:
        self.partitions -= set(partitions)


def test_a_member_that_is_stopped_while_it_joins_keeps_nobody_out(
    broker: Broker, make_topic: Callable[..., str]
) -> None:
    """The embedded broker kept its place for as long as a rebalance may last, five minutes."""
    topic, mine = make_topic(partitions=3), Mine()
    for is_first in (True, False):
        member = connect(broker.settings()).member(f"group-{topic}", 10, threading.Event())
        member.subscribe(topic, mine)
        if is_first:
            member.poll(0.2)
            member.close()
            mine.partitions.clear()
    try:
        wait_until(lambda: member.poll(0.2) or len(mine.partitions) == 3, timeout_s=30)
    finally:
        member.close()
