"""Records that an open transaction keeps from the readers of what is committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from stream_icd.errors import StreamIcdError
from stream_icd.kafka.held_offsets import GRACE_S
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.port.reader import Reader
from stream_icd.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

LOOK_EVERY_S = 15.0
ASK_TIMEOUT_S = 0.5


class HeldRecords:
    """Says so where a reader has waited for a transaction for longer than one lasts.

    It waits where the first open transaction begins, and that is right until the transaction's
    timeout. One that hangs stops the reader for ever (`HeldOffsets` says why there are such), and
    looks like a stream on which nothing happens.
    """

    def __init__(
        self, settings: KafkaSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s = settings.transaction_timeout_s + GRACE_S
        self._clock = clock
        self._looked = clock()
        self._held: dict[TopicPartition, tuple[int, float]] = {}
        self._said: set[tuple[TopicPartition, int]] = set()

    def look(self, reader: Reader) -> None:
        """Now and then see where the transactions in its partitions begin; changes nothing."""
        if self._clock() - self._looked < LOOK_EVERY_S:
            return
        self._looked = self._clock()
        try:
            ends = reader.ends(reader.assigned(), ASK_TIMEOUT_S)
        except StreamIcdError:  # also where a login is refused for a while
            self._held = {}  # while the broker is away, no transaction can end
            return
        for partition, end in ends.items():
            self._see(partition, end, reader.fetched_end(partition))

    def _see(self, partition: TopicPartition, end: int, high_watermark: int | None) -> None:
        if high_watermark is None or end >= high_watermark:
            self._held.pop(partition, None)
            return
        held_at, since = self._held.get(partition, (end, self._looked))
        if held_at != end:  # that transaction is over, and this is another one
            since = self._looked
        self._held[partition] = (end, since)
        if self._looked - since > self._patience_s:
            self._say(partition, end, high_watermark - end, self._looked - since)

    def _say(self, partition: TopicPartition, offset: int, count: int, seconds: float) -> None:
        if (partition, offset) not in self._said:
            self._said.add((partition, offset))
            log.warning(
                "for %.0f s a transaction has held back the records from offset %d in %s[%d], %d "
                "of them; if it never ends, find it and end it with Kafka's own "
                "`kafka-transactions.sh find-hanging` and `… abort`; see docs/guarantees.md",
                seconds,
                offset,
                partition.topic,
                partition.partition,
                count,
            )
