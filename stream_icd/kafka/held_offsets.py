"""A group's position that the broker keeps back while a transaction may still change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from stream_icd.errors import BrokerError, OffsetHeld
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.settings import KafkaSettings

# A broker looks every 10 s for transactions that are over; what lasts so much longer, hangs.
GRACE_S = 45.0


class HeldOffsets:
    """Sees that waiting for a partition's committed position has become pointless.

    A transaction ends after its timeout at the latest, and waiting is right until then. Apache
    Kafka 4.3.0 to 4.4.0 may forget to end one when it starts again after a crash (KAFKA-20734).
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
        """The positions there could be had, or are of no interest any more."""
        for partition in partitions:
            self._since.pop(partition, None)

    def unknown(self, partitions: Collection[TopicPartition]) -> None:
        """The positions there, and only there, could not be had; returns while waiting makes sense.

        Raises:
            OffsetHeld: it does not: the broker answers, and has kept one back for too long.
        """
        if not self._broker_answers():
            self._since = {}  # a transaction's time begins anew when its coordinator is back
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
        """Whether it tells the position to who does not ask for what is pending."""
        try:
            with connect(self._settings).admin() as admin:
                admin.group_offsets(self._group)
        except BrokerError:
            return False
        return True
