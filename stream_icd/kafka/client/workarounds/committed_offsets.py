"""Fetch a group's committed offsets from the broker, without outdated responses.

Seen in kafka-python 3.0.12: a request for committed offsets that timed out stays in a table with
its response until the same partitions are requested again, however much later. A member that got a
partition back then started at the old offset, and records that others had committed meanwhile were
processed twice. No issue was found upstream. Kafka's own client uses such a response only within
the group generation of the request.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import TopicPartition


def forget_old_answers(consumer: Any) -> None:
    """Make a consumer ignore the response to a request that timed out.

    Exception: to find a start position, it accepts a response from the same group generation. No
    other member commits there meanwhile, and a poll may be shorter than the round trip.
    """
    coordinator = consumer._coordinator
    if coordinator is None:  # the consumer has no group
        return
    ask = coordinator.fetch_committed_offsets_async
    requests = coordinator._offset_fetch_futures
    asked_in = _generation(consumer)

    async def ask_in_generation(
        partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> Any:
        nonlocal asked_in
        generation = _generation(consumer)
        if generation != asked_in:
            requests.clear()
        asked_in = generation
        return await ask(partitions, timeout_ms=timeout_ms)

    async def ask_now(partitions: Collection[TopicPartition], timeout_ms: float | None) -> Any:
        requests.pop(frozenset(partitions), None)
        try:
            return await ask(partitions, timeout_ms=timeout_ms)
        finally:
            requests.pop(frozenset(partitions), None)

    def ask_now_and_wait(
        partitions: Collection[TopicPartition], timeout_ms: float | None = None
    ) -> Any:
        return coordinator._net.run(ask_now, partitions, timeout_ms)

    coordinator.fetch_committed_offsets_async = ask_in_generation  # for start positions
    coordinator.fetch_committed_offsets = ask_now_and_wait  # KafkaConsumer.committed


def _generation(consumer: Any) -> tuple[int, str]:
    """The group's generation and our member id; a removed member gets a new id."""
    membership = consumer.group_metadata()
    return membership.generation_id, membership.member_id
