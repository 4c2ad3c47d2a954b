"""How far a group member is behind the ends of its partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.group.hanging import ASK_TIMEOUT_S
from stream_icd.kafka.port import Partitions, Reader, TopicPartition

LOOK_EVERY_S = 1.0
ASK_AFTER_S = 5.0


class Lag:
    """The number of records from the first uncommitted one to the end: waiting or in hand.

    Each fetch from a partition reports the partition's end. Nothing is fetched while work is in
    hand, and Kafka does not report again on an empty partition that was revoked and reassigned
    (KIP-227). So the broker is also asked periodically; the embedded one may report too low an end.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._looked = self._fetched = self._asked = clock()
        self._ends: dict[TopicPartition, int] = {}

    def fetched(self) -> None:
        self._fetched = self._clock()

    def look(
        self, ours: Partitions, in_hand: Mapping[TopicPartition, int]
    ) -> dict[int, int] | None:
        """The lag of each of our partitions, if known; None: too early to check again.

        `in_hand` is the offset of the first record in hand, by partition.
        """
        now = self._clock()
        if now - self._looked < LOOK_EVERY_S:
            return None
        self._looked = now
        known = all(self._reader.fetched_end(p) is not None for p in ours)
        known_at = max(self._fetched, self._asked) if known else self._asked
        if ours and now - known_at > ASK_AFTER_S:
            self._asked = now
            with contextlib.suppress(StreamIcdError):  # code that waits for the broker logs it
                self._ends = self._reader.ends(ours, ASK_TIMEOUT_S)
        lags = {p.partition: self._of(p, in_hand.get(p)) for p in ours}
        return {partition: lag for partition, lag in lags.items() if lag is not None}

    def _of(self, partition: TopicPartition, first: int | None) -> int | None:
        known = (self._reader.fetched_end(partition), self._ends.get(partition))
        end = max((one for one in known if one is not None), default=None)
        done = self._reader.position(partition) if first is None else first
        return None if end is None or done is None else max(0, end - done)
