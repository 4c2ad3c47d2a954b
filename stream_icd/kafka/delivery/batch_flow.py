"""Process batches one after the other: poll records, handle them, deliver the results."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from structlog.contextvars import bound_contextvars

from stream_icd.errors import RecordUndecodable
from stream_icd.kafka.clock import Clock, Stop
from stream_icd.kafka.delivery.attempts import CrashedRecords
from stream_icd.kafka.delivery.batch import Batch
from stream_icd.kafka.delivery.batch_delivery import BatchDelivery
from stream_icd.kafka.delivery.handler import BatchDone, Handler
from stream_icd.kafka.group.assignments import Assignment
from stream_icd.kafka.group.held_offsets import HeldOffsets
from stream_icd.kafka.group.membership import BUSY_POLL_S, Membership
from stream_icd.kafka.group.periodic_checks import PeriodicChecks
from stream_icd.kafka.group.watcher import Watcher
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.record import OutgoingRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch in processing, and when that began."""

    batch: Batch
    work: Future[tuple[OutgoingRecord, ...]]
    since: float


class BatchFlow:
    """The flow of records through one member: poll, handle, deliver.

    Args:
        handler: called by `worker`; see `Handler`.
    """

    def __init__(
        self,
        member: Membership,
        delivery: BatchDelivery,
        crashed: CrashedRecords,
        held: HeldOffsets,
        checks: PeriodicChecks,
        handler: Handler,
        watcher: Watcher,
        worker: Worker,
        clock: Clock,
    ) -> None:
        self._member = member
        self._delivery = delivery
        self._crashed = crashed
        self._held = held
        self._checks = checks
        self._handler = handler
        self._watcher = watcher
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
            self._crashed.note_the_end()
            self._worker.close()
            self._member.close()
            self._delivery.close()

    def _begin(self, timeout_s: float | None = None) -> _Begun | None:
        """Poll as `Membership.fetch`, and start processing the records, if there are any."""
        assignment = self._crashed.take_over()
        polled = self._member.fetch(1 if self._crashed.come_alone() else None, timeout_s)
        if not polled:
            return None
        batch = Batch.of(polled, assignment)
        self._member.in_hand = {**batch.first, **self._member.in_hand}
        return _Begun(batch, self._worker.submit(self._work_on(batch)), self._clock.now())

    def _work_on(self, batch: Batch) -> Callable[[], tuple[OutgoingRecord, ...]]:
        """The work for a batch: call the handler, or give up the batch's only record."""
        given_up = self._crashed.given_up(batch)
        new = sorted(p.partition for p, _ in batch.assignment.items() - self._announced.items())
        self._announced |= batch.assignment

        def work() -> tuple[OutgoingRecord, ...]:
            if new:
                self._handler.assigned(new)
            return tuple(self._handler.handle(batch.records) if given_up is None else given_up())

        return work

    def _finish(self, begun: _Begun) -> _Begun | None:
        """Wait for a batch and deliver it; return the next one if it was begun meanwhile."""
        batch, outgoing = begun.batch, self._result(begun.work)
        handled = self._clock.now()
        following = (
            self._begin_ahead() if self._handler.ahead and not self._crashed.come_alone() else None
        )
        if self._delivery.deliver(batch, outgoing):
            published = self._clock.now() - handled
            self._crashed.done(batch.first)
            finished = BatchDone(batch.records, outgoing, handled - begun.since, published)
            self._handler.done(finished)
            self._watcher.done(finished)
        else:
            log.warning("%d records of the current batch were not committed", len(batch.records))
            if following is not None:  # it follows the batch that is read again
                self._read_again(following.batch)
            self._read_again(batch)
            following = None
        self._held.known(batch.first)
        self._member.in_hand = {} if following is None else following.batch.first
        return following

    def _result(self, work: Future[tuple[OutgoingRecord, ...]]) -> tuple[OutgoingRecord, ...]:
        try:
            return self._member.finished(work)
        except Exception as error:
            if work.done() and work.exception() is error:
                self._crashed.ended_by(error)
            raise

    def _begin_ahead(self) -> _Begun | None:
        try:
            return self._begin(BUSY_POLL_S)
        except RecordUndecodable:
            return None  # the error is raised again after the batch before is delivered

    def _read_again(self, batch: Batch) -> None:
        self._announced = {}
        self._member.assignments.rewind(batch.assignment, batch.first)
