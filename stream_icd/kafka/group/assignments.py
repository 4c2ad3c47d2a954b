"""The partitions assigned to this member, since when, and the records polled from them."""

from __future__ import annotations

import itertools
import logging
import threading
from dataclasses import dataclass

from stream_icd.kafka.port import Member, Offsets, Partitions, Polled, TopicPartition
from stream_icd.kafka.record import Record

log = logging.getLogger(__name__)

Assignment = dict[TopicPartition, int]


class Assignments:
    """The partitions of this member; each assignment of a partition has its own number.

    A partition that went to another worker and came back has a new number, so records read from
    it before are no longer valid. The client's I/O thread may report changes at any time. A newly
    assigned partition is paused until `begin`, so polls before then return no records from it.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ours: Assignment = {}

    def assigned(self, partitions: Partitions) -> None:
        """Add newly assigned partitions, paused until `begin`."""
        with self._lock:
            for partition in partitions:
                self._ours[partition] = next(self._numbers)
                self._member.pause(partition)
        log.info("assigned: %s", ", ".join(map(str, sorted(partitions))))

    def revoked(self, partitions: Partitions) -> None:
        """Remove revoked partitions; records read from them are no longer valid."""
        with self._lock:
            for partition in partitions:
                self._ours.pop(partition, None)

    def begin(self) -> Assignment:
        """Resume all our partitions, and return the current assignment."""
        with self._lock:
            for partition in self._ours:
                self._member.resume(partition)
            return dict(self._ours)

    def ours(self) -> frozenset[TopicPartition]:
        """The partitions that are assigned to us now."""
        with self._lock:
            return frozenset(self._ours)

    def pause(self) -> None:
        with self._lock:
            for partition in self._ours:
                self._member.pause(partition)

    def kept(self, assignment: Assignment) -> frozenset[TopicPartition]:
        """The partitions of `assignment` that we have held without a break since then."""
        with self._lock:
            return frozenset(partition for partition, _ in assignment.items() & self._ours.items())

    def holds(self, assignment: Assignment) -> bool:
        """Whether we have held all partitions of `assignment` without a break since then."""
        return self.kept(assignment) == assignment.keys()

    def rewind(self, assignment: Assignment, offsets: dict[TopicPartition, int]) -> None:
        """Seek to `offsets` in the partitions of `assignment` that we still hold. The others
        belong to another member, or came back and are read from their committed offset."""
        for partition in self.kept(assignment):
            self._member.seek(partition, offsets[partition])


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
