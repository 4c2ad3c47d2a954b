"""Detect a committed offset that the broker withholds because of a hanging transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from stream_icd.errors import BrokerError, OffsetHeld
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.partition import TopicPartition
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

    def unknown(self, partitions: Collection[TopicPartition]) -> None:
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
