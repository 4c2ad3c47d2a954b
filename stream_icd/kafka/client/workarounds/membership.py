"""What a group's member knows, and the client tells nobody.

Seen in kafka-python 3.0.12:

- When the broker last answered a heartbeat can be had nowhere else.
- A member that the broker has thrown out keeps its partitions, and its positions in them, if the
  broker says so in answer to a join: a join is prepared once only. The assignor also claims them as
  owned, without a generation, and so takes them from the members that got them meanwhile. Then
  records were worked on twice, or passed over.
- A join for a change of metadata is forgotten where the assignment was under way when the poll's
  time was up; the member then never comes back.
"""

from __future__ import annotations

from typing import Any

from kafka.structs import MemberState


def last_heard(consumer: Any) -> float:
    """When the broker last answered a heartbeat, or let us join; by the monotonic clock."""
    heartbeat = consumer._coordinator.heartbeat
    return float(max(heartbeat.last_receive, heartbeat.last_reset))


def lose_partitions_with_membership(consumer: Any) -> None:
    """Have a member that is none any more give up all partitions before it joins again."""
    coordinator = consumer._coordinator
    if coordinator is None:  # it is in no group
        return
    reset = coordinator.reset_generation

    def reset_generation(*args: str, **member_id: str) -> None:
        reset(*args, **member_id)
        coordinator.rejoining = False  # prepare the next join: it sees that the generation is lost
        for assignor in coordinator._assignors.values():
            assignor.member_assignment = None

    coordinator.reset_generation = reset_generation


def keep_joining(consumer: Any) -> None:
    """See that a join that a poll left unfinished is taken up by the next one."""
    if consumer.group_metadata().state == MemberState.REBALANCING:
        consumer._coordinator.request_rejoin()
