"""The records of one partition, and which of them readers of committed records may see."""

from __future__ import annotations

from dataclasses import dataclass, field

from stream_icd.kafka.port import TopicPartition
from stream_icd.kafka.record import OutgoingRecord, Record


@dataclass(eq=False, slots=True)
class Transaction:
    """Records that become visible together, or never; `committed` is None while it is open."""

    committed: bool | None = None


_ALONE = Transaction(committed=True)


@dataclass(slots=True)
class Log:
    """A partition's entries: records, and None for the marker of a transaction's end.

    Offsets also count markers; `begin` is the first offset available.
    """

    partition: TopicPartition
    begin: int = 0
    _entries: list[tuple[Record | None, Transaction]] = field(default_factory=list)
    _settled: int = 0

    @property
    def end(self) -> int:
        return self.begin + len(self._entries)

    def append(self, record: OutgoingRecord, now_ms: int, transaction: Transaction | None) -> None:
        written = Record(
            *self.partition,
            self.end,
            now_ms if record.timestamp_ms is None else record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
        )
        self._entries.append((written, transaction or _ALONE))

    def mark_end(self) -> None:
        self._entries.append((None, _ALONE))

    def stable_end(self) -> int:
        """The offset where readers stop: the first record of an open transaction, or the end."""
        self._settled = max(self._settled, self.begin)
        while self._settled < self.end and self._at(self._settled)[1].committed is not None:
            self._settled += 1
        return self._settled

    def read(self, position: int, most: int) -> tuple[list[Record], int]:
        """Up to `most` visible records from `position` on, and the next position."""
        records: list[Record] = []
        stop = self.stable_end()
        while position < stop and len(records) < most:
            record, transaction = self._at(position)
            if record is not None and transaction.committed:
                records.append(record)
            position += 1
        return records, position

    def first_at(self, timestamp_ms: int) -> int | None:
        for record, _ in self._entries:
            if record is not None and record.timestamp_ms >= timestamp_ms:
                return record.offset
        return None

    def remove_before(self, offset: int) -> None:
        del self._entries[: max(0, offset - self.begin)]
        self.begin = max(self.begin, offset)

    def _at(self, offset: int) -> tuple[Record | None, Transaction]:
        return self._entries[offset - self.begin]
