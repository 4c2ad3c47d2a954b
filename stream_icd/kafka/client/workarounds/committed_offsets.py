"""The offsets that a group has committed, asked of the broker.

Seen in kafka-python 3.0.12: a request for committed offsets whose time is over stays in a table,
and so does its answer, until the same partitions are asked for again, however much later. A member
that got a partition back then began where the group had been the last time: what others had
committed meanwhile was worked on twice. No issue was found upstream. Kafka's own client uses such
an answer only within the generation of the group in which it asked.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from kafka import TopicPartition


def forget_old_answers(consumer: Any) -> None:
    """Have a consumer take no answer to a request that it gave up.

    Only where it needs a position to begin at, it takes one of the same generation of its group:
    nobody else commits there meanwhile, and a poll may be shorter than the way to the broker.
    """
    coordinator = consumer._coordinator
    if coordinator is None:  # it is in no group
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

    coordinator.fetch_committed_offsets_async = ask_in_generation  # to begin to read
    coordinator.fetch_committed_offsets = ask_now_and_wait  # KafkaConsumer.committed


def _generation(consumer: Any) -> tuple[int, str]:
    """Of the group, and who we are in it; a member that is thrown out gets another id."""
    membership = consumer.group_metadata()
    return membership.generation_id, membership.member_id
