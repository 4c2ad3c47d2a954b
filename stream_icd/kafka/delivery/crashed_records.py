"""Records that crashed a worker: retry them alone, and finally give them up."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Iterable
from functools import partial

from stream_icd.kafka.delivery.attempts import Attempts, blames_record
from stream_icd.kafka.delivery.batch import Batch
from stream_icd.kafka.delivery.handler import GiveUp
from stream_icd.kafka.group.assignments import Assignment
from stream_icd.kafka.group.membership import Membership
from stream_icd.kafka.port.partition import TopicPartition
from stream_icd.kafka.record import OutgoingRecord

log = logging.getLogger(__name__)

NOTE_TIMEOUT_S = 5.0


class CrashedRecords:
    """How a worker treats records that crashed another one; `Attempts` remembers them.

    Args:
        give_up: see `Handler`.
    """

    def __init__(self, member: Membership, attempts: Attempts, give_up: GiveUp | None) -> None:
        self._member = member
        self._attempts = attempts
        self._give_up = give_up
        self._crash: BaseException | None = None

    def take_over(self) -> Assignment:
        """Read how new partitions were left, resume all our partitions, and return them."""
        assignment = self._member.assignments.begin()
        while self._give_up is not None and (unknown := self._attempts.unknown(assignment)):
            self._member.insist(partial(self._attempts.take_over, unknown))
            assignment = self._member.assignments.begin()
        return assignment

    def come_alone(self) -> bool:
        """Whether one of the next records may have crashed a worker; if so, poll one at a time."""
        if self._give_up is None:
            return False
        suspicious = self._attempts.suspicious(self._member.assignments.ours())
        for partition in suspicious:
            if self._member.is_read(partition):
                self._attempts.clear(partition)
        return bool(self._attempts.suspicious(suspicious))

    def given_up(self, batch: Batch) -> Callable[[], Iterable[OutgoingRecord]] | None:
        """If the batch's only record is given up, a function that makes its replacement; else None.

        Before this returns, a note says that the batch is being processed.
        """
        if self._give_up is None:
            return None
        if news := self._attempts.news(batch.first, self._member.id):
            self._member.insist(partial(self._attempts.write, news))
        how = self._attempts.given_up(batch.first)
        if how is None:
            return None
        (record,) = batch.records
        return partial(self._give_up, record, how)

    def ended_by(self, error: BaseException) -> None:
        """Note that processing a batch failed with that error, which stops the worker."""
        if blames_record(error):
            self._crash = error

    def done(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the results of the records in hand are published and committed."""
        if self._give_up is not None:
            self._attempts.done(partitions)

    def note_the_end(self) -> None:
        """Note that we stop cleanly, unless a record crashed us; the broker may be unavailable."""
        if self._give_up is None:
            return
        ours = self._member.assignments.ours()
        noting = self._member.begin(partial(self._attempts.end, ours, self._crash))
        if not concurrent.futures.wait([noting], NOTE_TIMEOUT_S).done or noting.exception():
            log.warning("cannot note how this worker ended: %s", noting)
