"""The partitions assigned to this member, and since when."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection

from stream_icd.kafka.port.broker import Member
from stream_icd.kafka.port.partition import TopicPartition

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

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Add newly assigned partitions, paused until `begin`."""
        with self._lock:
            for partition in partitions:
                self._ours[partition] = next(self._numbers)
                self._member.pause(partition)
        log.info("assigned: %s", ", ".join(map(str, sorted(partitions))))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
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
