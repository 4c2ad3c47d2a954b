"""Consumers: what the client hides or fixes, and faults in joins and positions.

Seen in kafka-python 3.0.12:

- Two intervals are fixed when a consumer is made, though the best values depend on what it does.
  Each answer costs more than a millisecond of CPU time, and an idle consumer got twelve a second.
  The broker's wait for new records must be short while records come: the client has one fetch to a
  broker at a time, so what is waited for empty partitions is missing for others. The interval
  between heartbeats must be short while the group works: a heartbeat tells a member that others
  join or leave, and they wait for it.
- A poll begins anew whenever a heartbeat is due, though another thread sends it.
- The client does not publish when the broker last answered a heartbeat.
- A member that the broker has removed keeps its partitions and positions if it learns of this from
  the response to a join, because a join is prepared only once. The assignor also claims them as
  owned, without a generation, and so takes them from the members that got them meanwhile. Then
  records were processed twice, or skipped.
- A join for a change of metadata is forgotten if the poll timed out during the assignment; the
  member then never rejoins.
- A request for committed offsets that timed out stays in a table with its response until the same
  partitions are requested again, however much later. A member that got a partition back then
  started at the old offset, and records that others had committed meanwhile were processed twice.
  Kafka's own client uses such a response only within the group generation of the request.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Any

from kafka import TopicPartition
from kafka.structs import MemberState

Partitions = Collection[TopicPartition]


def let_broker_wait(consumer: Any, milliseconds: int) -> None:
    """Make the next fetches of a consumer wait that long for new records, at most."""
    consumer._fetcher.config["fetch_max_wait_ms"] = milliseconds


def poll_past_heartbeats(consumer: Any) -> None:
    """Let the polls of a member wait as long as they may; it commits no offsets by itself."""
    consumer._coordinator.time_to_next_poll = lambda: inf


def set_heartbeat_interval(consumer: Any, milliseconds: int) -> None:
    consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = milliseconds


def last_heard(consumer: Any) -> float:
    """When the broker last answered a heartbeat, or let us join; by the monotonic clock."""
    heartbeat = consumer._coordinator.heartbeat
    return float(max(heartbeat.last_receive, heartbeat.last_reset))


def lose_partitions_with_membership(consumer: Any) -> None:
    """Make a removed member give up all partitions before it joins again."""
    coordinator = consumer._coordinator
    reset = coordinator.reset_generation

    def reset_generation(*args: str, **member_id: str) -> None:
        reset(*args, **member_id)
        coordinator.rejoining = False  # prepare the next join, which sees the lost generation
        for assignor in coordinator._assignors.values():
            assignor.member_assignment = None

    coordinator.reset_generation = reset_generation


def is_joining(consumer: Any) -> bool:
    return bool(consumer.group_metadata().state == MemberState.REBALANCING)


def keep_joining(consumer: Any) -> None:
    """Make the next poll continue a join that the last poll left unfinished."""
    if is_joining(consumer):
        consumer._coordinator.request_rejoin()


def forget_old_answers(consumer: Any) -> None:
    """Make a member ignore the response to a request that timed out.

    Exception: to find a start position, it accepts a response from the same group generation. No
    other member commits there meanwhile, and a poll may be shorter than the round trip.
    """
    coordinator = consumer._coordinator
    ask = coordinator.fetch_committed_offsets_async
    requests = coordinator._offset_fetch_futures
    asked_in = _generation(consumer)

    async def ask_in_generation(partitions: Partitions, timeout_ms: float | None = None) -> Any:
        nonlocal asked_in
        generation = _generation(consumer)
        if generation != asked_in:
            requests.clear()
        asked_in = generation
        return await ask(partitions, timeout_ms=timeout_ms)

    async def ask_now(partitions: Partitions, timeout_ms: float | None) -> Any:
        requests.pop(frozenset(partitions), None)
        try:
            return await ask(partitions, timeout_ms=timeout_ms)
        finally:
            requests.pop(frozenset(partitions), None)

    def ask_now_and_wait(partitions: Partitions, timeout_ms: float | None = None) -> Any:
        return coordinator._net.run(ask_now, partitions, timeout_ms)

    coordinator.fetch_committed_offsets_async = ask_in_generation  # for start positions
    coordinator.fetch_committed_offsets = ask_now_and_wait  # KafkaConsumer.committed


def _generation(consumer: Any) -> tuple[int, str]:
    """The group's generation and our member id; a removed member gets a new id."""
    membership = consumer.group_metadata()
    return membership.generation_id, membership.member_id
