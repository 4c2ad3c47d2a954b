"""The records that one poll gave, of partitions that were ours then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition

from stream_icd.kafka.assignments import Assignment
from stream_icd.kafka.delivery import NextOffsets
from stream_icd.kafka.reader import our_record
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
    first: dict[TopicPartition, int]
    next: NextOffsets

    @staticmethod
    def of(polled: dict[TopicPartition, list[Any]], assignment: Assignment) -> Batch:
        """The batch of what a poll gave under this assignment."""
        return Batch(
            records=tuple(our_record(r) for records in polled.values() for r in records),
            assignment={p: assignment[p] for p in polled},
            first={p: records[0].offset for p, records in polled.items()},
            next={
                p: OffsetAndMetadata(records[-1].offset + 1, "", -1)
                for p, records in polled.items()
            },
        )

    @property
    def places(self) -> str:
        """Its offsets, first and last: `topic[partition]@first..last` for each partition."""
        return ", ".join(
            f"{p.topic}[{p.partition}]@{first}..{self.next[p].offset - 1}"
            for p, first in self.first.items()
        )
