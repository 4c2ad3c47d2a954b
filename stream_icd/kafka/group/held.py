"""Whether a transaction that hangs holds back what a group member or a reader waits for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stream_icd.core.errors import BrokerError, OffsetHeld, StreamIcdError
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import Partitions, Reader, TopicPartition
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import ASK_TIMEOUT_S

_log = logging.getLogger(__name__)

# A broker checks every 10 s for expired transactions; one that lasts this much longer hangs.
_GRACE_S = 45.0
_LOOK_EVERY_S = 15.0


@dataclass(slots=True)
class HeldOffsets:
    """Detects when waiting for a partition's committed position is pointless.

    A transaction ends at its timeout at the latest, so waiting until then is correct. Apache Kafka
    4.3.0 to 4.4.0 may fail to end a transaction when it restarts after a crash (KAFKA-20734).
    """

    settings: KafkaSettings
    group: str
    clock: Callable[[], float]
    _since: dict[TopicPartition, float] = field(default_factory=dict)

    def known(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that these partitions' positions are known, or no longer needed."""
        for partition in partitions:
            self._since.pop(partition, None)

    def unknown(self, partitions: Partitions) -> None:
        """Note that exactly these positions are unknown.

        OffsetHeld: the broker answers, but has withheld one for longer than the timeout.
        """
        if not self._broker_answers():
            self._since = {}  # a transaction's timeout restarts when its coordinator is back
            return
        now = self.clock()
        self._since = {partition: self._since.get(partition, now) for partition in partitions}
        partition, since = min(self._since.items(), key=lambda item: item[1])
        if now - since > self.settings.transaction_timeout_s + _GRACE_S:
            raise OffsetHeld(
                f"group {self.group}: for {now - since:.0f} s the broker has held back its "
                f"position in {partition} because of a transaction that should have ended after "
                f"{self.settings.transaction_timeout_s:g} s (transaction_timeout_s). Find and end "
                "the transaction with Kafka's own `kafka-transactions.sh find-hanging` and "
                "`… abort`, then start again; see docs/guarantees.md"
            )

    def _broker_answers(self) -> bool:
        """Whether the broker returns positions if pending transactions are ignored."""
        try:
            with connect(self.settings).admin() as admin:
                admin.group_offsets(self.group)
        except BrokerError:
            return False
        return True


class HeldRecords:
    """Logs a warning if a reader waits for a transaction for longer than transactions last.

    A reader stops at the start of the first open transaction, which is correct until the
    transaction's timeout. A hanging transaction (`HeldOffsets` says why these exist) stops the
    reader forever, and looks like a stream without new records.
    """

    def __init__(
        self, settings: KafkaSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience_s = settings.transaction_timeout_s + _GRACE_S
        self._clock = clock
        self._looked = clock()
        self._since: dict[tuple[TopicPartition, int], float] = {}
        self._logged: set[tuple[TopicPartition, int]] = set()

    def look(self, reader: Reader) -> None:
        """Check periodically where open transactions begin in the partitions; changes nothing."""
        now = self._clock()
        if now - self._looked < _LOOK_EVERY_S:
            return
        self._looked, since = now, self._since
        self._since = {}  # while the broker is down, no transaction can end
        try:
            ends = reader.ends(reader.assigned(), ASK_TIMEOUT_S)
        except StreamIcdError:  # also if a login is refused for a while
            return
        for partition, end in ends.items():
            high_watermark = reader.fetched_end(partition)
            if high_watermark is not None and end < high_watermark:
                begun = (partition, end)
                self._since[begun] = since.get(begun, now)
                if now - self._since[begun] > self._patience_s and begun not in self._logged:
                    self._logged.add(begun)
                    _log.warning(
                        "for %.0f s a transaction has held back the records from offset %d in %s, "
                        "%d of them; if it never ends, find it and end it with Kafka's own "
                        "`kafka-transactions.sh find-hanging` and `… abort`; see "
                        "docs/guarantees.md",
                        now - self._since[begun],
                        end,
                        partition,
                        high_watermark - end,
                    )
