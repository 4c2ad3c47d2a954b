"""How far a member of a group is behind the ends of its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka import errors as client

LOOK_EVERY_S = 1.0
ASK_AFTER_S = 5.0
ASK_TIMEOUT_MS = 500


def position(consumer: Any, partition: TopicPartition) -> int | None:
    """The offset that would be fetched next, as far as it is known now."""
    try:
        found = consumer.position(partition, timeout_ms=0)
    except (client.KafkaError, AssertionError):  # it was taken away, or has no position yet
        return None
    return None if found is None else int(found)


def fetched_end(consumer: Any, partition: TopicPartition) -> int | None:
    """Where the partition ends, as the last fetch told; None before the first."""
    try:
        end = consumer.highwater(partition)
    except (client.KafkaError, AssertionError):  # it was taken away
        return None
    return None if end is None else int(end)


def is_read(consumer: Any, partition: TopicPartition) -> bool:
    """Whether everything is read that the last fetch told of; False before the first."""
    end, at = fetched_end(consumer, partition), position(consumer, partition)
    return end is not None and at is not None and at >= end


class Lag:
    """How many records wait, or are in hand: from the first that is not committed to the end.

    The end of a partition comes with what is fetched of it. While work is in hand nothing is
    fetched, and of an empty partition that went away and came back Kafka says nothing once more
    (KIP-227). So now and then the broker is asked; the embedded one may answer too little.
    """

    def __init__(self, consumer: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._consumer = consumer
        self._clock = clock
        self._looked = self._fetched = self._asked = clock()
        self._ends: dict[TopicPartition, int] = {}

    def fetched(self) -> None:
        """A poll that fetches was made just now."""
        self._fetched = self._clock()

    def look(
        self, ours: Collection[TopicPartition], in_hand: Mapping[TopicPartition, int]
    ) -> dict[int, int] | None:
        """The lag of each of our partitions, as far as it is known; None: too early to look.

        Args:
            in_hand: of partitions with records in hand, the offset of the first of them.
        """
        now = self._clock()
        if now - self._looked < LOOK_EVERY_S:
            return None
        self._looked = now
        known = all(self._fetched_end(p) is not None for p in ours)
        told = max(self._fetched, self._asked) if known else self._asked
        if ours and now - told > ASK_AFTER_S:
            self._ask(ours)
        lags = {p.partition: self._of(p, in_hand.get(p)) for p in ours}
        return {partition: lag for partition, lag in lags.items() if lag is not None}

    def _ask(self, ours: Collection[TopicPartition]) -> None:
        self._asked = self._clock()
        try:
            self._ends = self._consumer.end_offsets(list(ours), timeout_ms=ASK_TIMEOUT_MS)
        except client.KafkaError:
            return  # it is looked at again soon, and who waits for the broker says so

    def _of(self, partition: TopicPartition, first: int | None) -> int | None:
        known = (self._fetched_end(partition), self._ends.get(partition))
        end = max((one for one in known if one is not None), default=None)
        done = position(self._consumer, partition) if first is None else first
        return None if end is None or done is None else max(0, end - done)

    def _fetched_end(self, partition: TopicPartition) -> int | None:
        return fetched_end(self._consumer, partition)
