"""Process batches one after the other: poll records, handle them, deliver the results."""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from structlog.contextvars import bound_contextvars

from stream_icd.errors import CrashedWorker, RecordUndecodable
from stream_icd.kafka.clock import Clock, Stop
from stream_icd.kafka.delivery.attempts import Attempts, blames_record
from stream_icd.kafka.delivery.batch_delivery import BatchDelivery
from stream_icd.kafka.delivery.handler import BatchDone, Handler, Watcher
from stream_icd.kafka.group.assignments import Assignment, Batch
from stream_icd.kafka.group.membership import BUSY_POLL_S, Membership
from stream_icd.kafka.group.periodic_checks import PeriodicChecks
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.record import OutgoingRecord

log = logging.getLogger(__name__)

NOTE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch in processing, and when that began."""

    batch: Batch
    work: Future[tuple[OutgoingRecord, ...]]
    since: float


class BatchFlow:
    """The flow of records through one member: poll, handle, deliver.

    Records that may have ended a worker come one by one, until the one that does is given up.

    Args:
        handler: called by `worker`; see `Handler`.
    """

    def __init__(
        self,
        member: Membership,
        delivery: BatchDelivery,
        attempts: Attempts,
        checks: PeriodicChecks,
        handler: Handler,
        watchers: Sequence[Watcher],
        worker: Worker,
        clock: Clock,
    ) -> None:
        self._member = member
        self._delivery = delivery
        self._attempts = attempts
        self._checks = checks
        self._handler = handler
        self._watchers = watchers
        self._announced: Assignment = {}
        self._clock = clock
        self._worker = worker

    def run(self, stop: Stop) -> None:
        """Run until `stop`; then finish the batch in hand, or give it back (`GiveBack`)."""
        try:
            self._member.join()
            self._delivery.open()
            begun: _Begun | None = None
            while not stop.is_set():
                begun = begun or self._begin()
                if begun is not None:
                    with bound_contextvars(batch=begun.batch.places):
                        begun = self._finish(begun)
                self._checks.look()
        finally:
            self._note_the_end()
            self._worker.close()
            self._member.close()
            self._delivery.close()

    def _begin(self, timeout_s: float | None = None, before: _Begun | None = None) -> _Begun | None:
        """Poll as `Membership.fetch`, and start processing the records, if there are any.

        Args:
            before: the batch in processing; if it fails, these records are not processed.
        """
        assignment = self._take_over()
        polled = self._member.fetch(1 if self._come_alone() else None, timeout_s)
        if not polled:
            return None
        batch = Batch.of(polled, assignment)
        self._member.in_hand = {**batch.first, **self._member.in_hand}
        work = self._work_on(batch, assignment, before)
        return _Begun(batch, self._worker.submit(work), self._clock.now())

    def _take_over(self) -> Assignment:
        """Read how new partitions were left, resume all our partitions, and return them."""
        assignment = self._member.assignments.begin()
        while unknown := self._attempts.unknown(assignment):
            self._member.insist(partial(self._attempts.take_over, unknown))
            assignment = self._member.assignments.begin()
        return assignment

    def _come_alone(self) -> bool:
        """Whether one of the next records may have ended a worker; if so, poll one at a time."""
        suspicious = self._attempts.suspicious(self._member.assignments.ours())
        for partition in filter(self._member.is_read, suspicious):
            self._attempts.clear(partition)
        return bool(self._attempts.suspicious(suspicious))

    def _work_on(
        self, batch: Batch, assignment: Assignment, before: _Begun | None
    ) -> Callable[[], tuple[OutgoingRecord, ...]]:
        """The work for a batch: call the handler, or give up the batch's only record.

        Before this returns, a note says that the batch is being processed.
        """
        if news := self._attempts.news(batch.first, self._member.id):
            self._member.insist(partial(self._attempts.write, news))
        ended = self._attempts.given_up(batch.first)
        new = sorted(p.partition for p, _ in assignment.items() - self._announced.items())
        self._announced |= assignment

        def work() -> tuple[OutgoingRecord, ...]:
            if before is not None and before.work.exception() is not None:
                return ()
            if new:
                self._handler.assigned(new)
            if ended is None:
                return tuple(self._handler.handle(batch.records))
            (record,) = batch.records
            return tuple(self._handler.give_up(record, ended.ends, ended.how))

        return work

    def _finish(self, begun: _Begun) -> _Begun | None:
        """Wait for a batch and deliver it; return the next one if it was begun meanwhile.

        The next one waits while this one is processed, so that the handler is never without work.
        If none was there, it is looked for once more before this one is delivered.
        """
        batch, following = begun.batch, self._begin_ahead(begun, BUSY_POLL_S)
        outgoing = self._result(begun)
        handled = self._clock.now()
        if outgoing is not None and following is None:
            following = self._begin_ahead(begun, 0.0)
        if outgoing is not None and self._delivery.deliver(batch, outgoing):
            published = self._clock.now() - handled
            self._attempts.done(batch.first)
            finished = BatchDone(batch.records, outgoing, handled - begun.since, published)
            self._handler.done(finished)
            for watcher in self._watchers:
                watcher.done(finished)
        else:
            log.warning("%d records of the current batch were not committed", len(batch.records))
            if following is not None:  # it follows the batch that is read again
                self._read_again(following.batch)
            self._read_again(batch)
            following = None
        self._checks.held.known(batch.first)
        self._member.in_hand = {} if following is None else following.batch.first
        return following

    def _result(self, begun: _Begun) -> tuple[OutgoingRecord, ...] | None:
        """What to publish for a batch; None if a process ended that worked on it."""
        try:
            return self._member.finished(begun.work)
        except Exception as error:
            if not (begun.work.done() and begun.work.exception() is error and blames_record(error)):
                raise
            self._attempts.ended(begun.batch.first, error)
            if not (self._handler.gives_up and isinstance(error, CrashedWorker)):
                raise
            log.warning("processing the records of the batch one by one: %s", error)
            return None

    def _begin_ahead(self, before: _Begun, timeout_s: float) -> _Begun | None:
        # `_come_alone` would clear the doubt about what is in processing, if it is read to its end.
        in_doubt = self._attempts.suspicious(self._member.assignments.ours())
        if in_doubt or not self._handler.ahead:
            return None
        try:
            return self._begin(timeout_s, before)
        except RecordUndecodable:
            return None  # the error is raised again after the batch before is delivered

    def _read_again(self, batch: Batch) -> None:
        self._announced = {}
        self._member.assignments.rewind(batch.assignment, batch.first)

    def _note_the_end(self) -> None:
        """Note that we work on nothing any more; the broker may be unavailable."""
        ours = self._member.assignments.ours()
        noting = self._member.begin(partial(self._attempts.end, ours))
        if not concurrent.futures.wait([noting], NOTE_TIMEOUT_S).done or noting.exception():
            log.warning("cannot note how this worker ended: %s", noting)
