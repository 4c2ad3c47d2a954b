"""Let an idle consumer do less.

Seen in kafka-python 3.0.12: two intervals are fixed when a consumer is made, though the best values
depend on what it does. Each answer costs more than a millisecond of CPU time, and an idle consumer
got twelve in a second.

- How long a broker may hold back the answer to a fetch while there are no new records. The client
  has one fetch to a broker at a time, so what is waited for empty partitions is missing for others:
  the wait must be short while records come.
- The interval between heartbeats. With it, a member notices that others join or leave, for which
  the others wait: it must be short while they work.

A poll also begins anew whenever a heartbeat is due, though another thread sends it.
"""

from __future__ import annotations

from math import inf
from typing import Any


def let_broker_wait(consumer: Any, milliseconds: int) -> None:
    """Make the next fetches of a consumer wait that long for new records, at most."""
    consumer._fetcher.config["fetch_max_wait_ms"] = milliseconds


def poll_past_heartbeats(consumer: Any) -> None:
    """Let the polls of a member wait as long as they may; it commits no offsets by itself."""
    consumer._coordinator.time_to_next_poll = lambda: inf


def set_heartbeat_interval(consumer: Any, milliseconds: int) -> None:
    """Change the interval between the heartbeats of a member."""
    consumer._coordinator.heartbeat.config["heartbeat_interval_ms"] = milliseconds
