"""Which partitions are ours, and since when."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection

from stream_icd.kafka.port.member import Member
from stream_icd.kafka.port.partition import TopicPartition

log = logging.getLogger(__name__)

Assignment = dict[TopicPartition, int]


class Assignments:
    """Our partitions: each assignment of one has a number of its own.

    A partition that went to another worker and came back has another number, so that what was
    read of it before counts no more. The client's I/O thread tells us at any time. A partition
    that comes is paused until `begin`, so no poll in between brings records of it.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._ours: Assignment = {}

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """They come; paused until `begin`."""
        with self._lock:
            for partition in partitions:
                self._ours[partition] = next(self._numbers)
                self._member.pause(partition)
        log.info("assigned: %s", ", ".join(map(str, sorted(partitions))))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """They go; what was read of them counts no more."""
        with self._lock:
            for partition in partitions:
                self._ours.pop(partition, None)

    def begin(self) -> Assignment:
        """Let records of our partitions come, and say since when these are ours."""
        with self._lock:
            for partition in self._ours:
                self._member.resume(partition)
            return dict(self._ours)

    def ours(self) -> frozenset[TopicPartition]:
        """The partitions that are ours now."""
        with self._lock:
            return frozenset(self._ours)

    def pause(self) -> None:
        with self._lock:
            for partition in self._ours:
                self._member.pause(partition)

    def kept(self, assignment: Assignment) -> frozenset[TopicPartition]:
        """The partitions of `assignment` that have been ours ever since."""
        with self._lock:
            return frozenset(partition for partition, _ in assignment.items() & self._ours.items())

    def holds(self, assignment: Assignment) -> bool:
        """Whether all partitions of `assignment` have been ours ever since."""
        return self.kept(assignment) == assignment.keys()

    def rewind(self, assignment: Assignment, offsets: dict[TopicPartition, int]) -> None:
        """Read again from `offsets` what has been ours ever since; the rest is somebody else's,
        or came back and is read from where it was committed."""
        for partition in self.kept(assignment):
            self._member.seek(partition, offsets[partition])
