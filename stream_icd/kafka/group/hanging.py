"""Detect that a hanging transaction withholds a committed offset, or records from readers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from stream_icd.errors import BrokerError, OffsetHeld, StreamIcdError
from stream_icd.kafka.clock import IDLE_S
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import Partitions, Reader, TopicPartition
from stream_icd.kafka.settings import KafkaSettings

# A broker checks every 10 s for expired transactions; one that lasts this much longer hangs.
GRACE_S = 45.0


class HeldOffsets:
    """Detects when waiting for a partition's committed position is pointless.

    A transaction ends at its timeout at the latest, so waiting until then is correct. Apache Kafka
    4.3.0 to 4.4.0 may fail to end a transaction when it restarts after a crash (KAFKA-20734).
    """

    def __init__(
        self, settings: KafkaSettings, group: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._group = group
        self._clock = clock
        self._patience_s = settings.transaction_timeout_s + GRACE_S
        self._since: dict[TopicPartition, float] = {}

    def known(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions' positions are known, or no longer needed."""
        for partition in partitions:
            self._since.pop(partition, None)

    def unknown(self, partitions: Partitions) -> None:
        """Note that exactly these positions are unknown; return until the timeout has passed.

        Raises:
            OffsetHeld: the broker answers, but has withheld a position for longer than the timeout.
        """
        if not self._broker_answers():
            self._since = {}  # a transaction's timeout restarts when its coordinator is back
            return
        now = self._clock()
        self._since = {partition: self._since.get(partition, now) for partition in partitions}
        held, since = min(self._since.items(), key=lambda item: item[1])
        if now - since > self._patience_s:
            raise OffsetHeld(
                f"group {self._group}: for {now - since:.0f} s the broker has held back its "
                f"position in {held.topic}[{held.partition}] because of a transaction that "
                f"should have ended after {self._settings.transaction_timeout_s:g} s "
                "(transaction_timeout_s). Find and end the transaction with Kafka's own "
                "`kafka-transactions.sh find-hanging` and `… abort`, then start again; see "
                "docs/guarantees.md"
            )

    def _broker_answers(self) -> bool:
        """Whether the broker returns positions if pending transactions are ignored."""
        try:
            with connect(self._settings).admin() as admin:
                admin.group_offsets(self._group)
        except BrokerError:
            return False
        return True


log = logging.getLogger(__name__)

LOOK_EVERY_S = 15.0
# A broker answers after the fetch in progress, which may wait for records.
ASK_TIMEOUT_S = 2 * IDLE_S


class HeldRecords:
    """Logs a warning if a reader waits for a transaction for longer than transactions last.

    A reader stops at the start of the first open transaction, which is correct until the
    transaction's timeout. A hanging transaction stops the reader forever (`HeldOffsets` says why
    these exist), and looks like a stream without new records.
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
        """Check periodically where open transactions begin in the partitions; changes nothing."""
        if self._clock() - self._looked < LOOK_EVERY_S:
            return
        self._looked = self._clock()
        try:
            ends = reader.ends(reader.assigned(), ASK_TIMEOUT_S)
        except StreamIcdError:  # also if a login is refused for a while
            self._held = {}  # while the broker is down, no transaction can end
            return
        for partition, end in ends.items():
            self._see(partition, end, reader.fetched_end(partition))

    def _see(self, partition: TopicPartition, end: int, high_watermark: int | None) -> None:
        if high_watermark is None or end >= high_watermark:
            self._held.pop(partition, None)
            return
        held_at, since = self._held.get(partition, (end, self._looked))
        if held_at != end:  # that transaction has ended; this is another one
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
