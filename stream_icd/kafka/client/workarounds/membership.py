"""Membership of a group: details that the client hides, and faults in its joins.

Seen in kafka-python 3.0.12:

- The client does not publish when the broker last answered a heartbeat.
- A member that the broker has removed keeps its partitions and positions if it learns of this from
  the response to a join, because a join is prepared only once. The assignor also claims them as
  owned, without a generation, and so takes them from the members that got them meanwhile. Then
  records were processed twice, or skipped.
- A join for a change of metadata is forgotten if the poll timed out during the assignment; the
  member then never rejoins.
"""

from __future__ import annotations

from typing import Any

from kafka.structs import MemberState


def last_heard(consumer: Any) -> float:
    """When the broker last answered a heartbeat, or let us join; by the monotonic clock."""
    heartbeat = consumer._coordinator.heartbeat
    return float(max(heartbeat.last_receive, heartbeat.last_reset))


def lose_partitions_with_membership(consumer: Any) -> None:
    """Make a removed member give up all partitions before it joins again."""
    coordinator = consumer._coordinator
    if coordinator is None:  # the consumer has no group
        return
    reset = coordinator.reset_generation

    def reset_generation(*args: str, **member_id: str) -> None:
        reset(*args, **member_id)
        coordinator.rejoining = False  # prepare the next join, which sees the lost generation
        for assignor in coordinator._assignors.values():
            assignor.member_assignment = None

    coordinator.reset_generation = reset_generation


def is_joining(consumer: Any) -> bool:
    """Whether a join has begun and is not finished."""
    return bool(consumer.group_metadata().state == MemberState.REBALANCING)


def keep_joining(consumer: Any) -> None:
    """Make the next poll continue a join that the last poll left unfinished."""
    if is_joining(consumer):
        consumer._coordinator.request_rejoin()
