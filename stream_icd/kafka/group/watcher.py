"""Observe how a consumer is doing: for metrics, health checks and tests."""

from __future__ import annotations

from collections.abc import Mapping

from stream_icd.kafka.delivery.handler import BatchDone


class Watcher:
    """Gets the events of a consumer's loop; this base class ignores them.

    Methods are called in the loop's thread: each must return at once, and raise nothing.
    """

    def polled(self, generation: int | None, silence_s: float) -> None:
        """The loop has polled once; also called while work is in hand.

        Args:
            generation: the group's generation, which grows with each rebalance; None while we are
                not a settled member.
            silence_s: seconds since the broker last answered a heartbeat of the group.
        """

    def lagged(self, lag: Mapping[int, int]) -> None:
        """The number of waiting and in-hand records by partition; called about once a second."""

    def done(self, batch: BatchDone) -> None:
        """A batch was published and committed."""
