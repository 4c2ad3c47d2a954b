"""A member that the broker has thrown out starts anew: it keeps no partition, and claims none."""

from __future__ import annotations

from kafka import TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from stream_icd.kafka.client.connections import open_consumer
from testbed.brokers import Broker


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
