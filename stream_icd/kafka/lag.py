"""How far a member of a group is behind the ends of its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.reader import Reader

LOOK_EVERY_S = 1.0
ASK_AFTER_S = 5.0
ASK_TIMEOUT_S = 0.5


def is_read(reader: Reader, partition: TopicPartition) -> bool:
    """Whether everything is read that the last fetch told of; False before the first."""
    end, at = reader.fetched_end(partition), reader.position(partition)
    return end is not None and at is not None and at >= end


class Lag:
    """How many records wait, or are in hand: from the first that is not committed to the end.

    The end of a partition comes with what is fetched of it. While work is in hand nothing is
    fetched, and of an empty partition that went away and came back Kafka says nothing once more
    (KIP-227). So now and then the broker is asked; the embedded one may answer too little.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader = reader
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
        known = all(self._reader.fetched_end(p) is not None for p in ours)
        told = max(self._fetched, self._asked) if known else self._asked
        if ours and now - told > ASK_AFTER_S:
            self._ask(ours)
        lags = {p.partition: self._of(p, in_hand.get(p)) for p in ours}
        return {partition: lag for partition, lag in lags.items() if lag is not None}

    def _ask(self, ours: Collection[TopicPartition]) -> None:
        self._asked = self._clock()
        try:
            self._ends = self._reader.ends(ours, ASK_TIMEOUT_S)
        except StreamIcdError:
            return  # it is looked at again soon, and who waits for the broker says so

    def _of(self, partition: TopicPartition, first: int | None) -> int | None:
        known = (self._reader.fetched_end(partition), self._ends.get(partition))
        end = max((one for one in known if one is not None), default=None)
        done = self._reader.position(partition) if first is None else first
        return None if end is None or done is None else max(0, end - done)
