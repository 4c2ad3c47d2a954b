"""Whoever wants to see how a consumer is doing: metrics, health checks, tests."""

from __future__ import annotations

from collections.abc import Mapping

from stream_icd.kafka.batch_done import BatchDone


class Watcher:
    """Told what a consumer's loop goes through; this one looks away.

    Called in the loop's thread: each call must return at once, and raise nothing.
    """

    def polled(self, generation: int | None, silence_s: float) -> None:
        """The loop went round once, also while work is in hand.

        Args:
            generation: of the group, which grows with each rebalance; None while we are not a
                settled member of it.
            silence_s: how long the broker has not answered the group's heartbeats.
        """

    def lagged(self, lag: Mapping[int, int]) -> None:
        """So many records of each of our partitions wait, or are in hand; about once a second."""

    def done(self, batch: BatchDone) -> None:
        """A batch was published and committed."""
