"""The records of one poll, from the partitions assigned to us at that time."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.kafka.group.assignments import Assignment
from stream_icd.kafka.port.broker import Polled
from stream_icd.kafka.port.partition import Offsets
from stream_icd.kafka.record import Record


@dataclass(frozen=True, slots=True)
class Batch:
    """Records that are processed, published and committed together.

    Attributes:
        assignment: the assignment of the partitions that the records came from.
        first: the offset of the first record of each partition.
        next: the offset after the last record of each partition; committed when the batch is done.
    """

    records: tuple[Record, ...]
    assignment: Assignment
    first: Offsets
    next: Offsets

    @staticmethod
    def of(polled: Polled, assignment: Assignment) -> Batch:
        """The batch of the records that a poll returned under this assignment."""
        return Batch(
            records=tuple(record for records in polled.values() for record in records),
            assignment={p: assignment[p] for p in polled},
            first={p: records[0].offset for p, records in polled.items()},
            next={p: records[-1].offset + 1 for p, records in polled.items()},
        )

    @property
    def places(self) -> str:
        """The first and last offsets: `topic[partition]@first..last` for each partition."""
        return ", ".join(f"{p}@{first}..{self.next[p] - 1}" for p, first in self.first.items())
