"""The records that one poll gave, of partitions that were ours then."""

from __future__ import annotations

from dataclasses import dataclass

from stream_icd.kafka.assignments import Assignment
from stream_icd.kafka.port.partition import Offsets
from stream_icd.kafka.port.reader import Polled
from stream_icd.kafka.record import Record


@dataclass(frozen=True, slots=True)
class Batch:
    """What is worked on, published and committed together.

    Attributes:
        assignment: of the partitions that the records came from.
        first: the offset of the first record of each partition.
        next: the offset after the last one, which is committed when the batch is done.
    """

    records: tuple[Record, ...]
    assignment: Assignment
    first: Offsets
    next: Offsets

    @staticmethod
    def of(polled: Polled, assignment: Assignment) -> Batch:
        """The batch of what a poll gave under this assignment."""
        return Batch(
            records=tuple(record for records in polled.values() for record in records),
            assignment={p: assignment[p] for p in polled},
            first={p: records[0].offset for p, records in polled.items()},
            next={p: records[-1].offset + 1 for p, records in polled.items()},
        )

    @property
    def places(self) -> str:
        """Its offsets, first and last: `topic[partition]@first..last` for each partition."""
        return ", ".join(f"{p}@{first}..{self.next[p] - 1}" for p, first in self.first.items())
