"""What a group's member knows, and the client tells nobody.

Seen in kafka-python 3.0.12:

- When the broker last answered a heartbeat can be had nowhere else.
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


def keep_joining(consumer: Any) -> None:
    """See that a join that a poll left unfinished is taken up by the next one."""
    if consumer.group_metadata().state == MemberState.REBALANCING:
        consumer._coordinator.request_rejoin()
