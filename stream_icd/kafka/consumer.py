"""Consume a topic as a group member: poll, process, publish, commit.

`Membership` polls and stays in the group. If another member gets a partition of a batch in
processing, the batch is not committed, and the partitions that are still ours are read again.
"""

from __future__ import annotations

import concurrent.futures
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from structlog.contextvars import bound_contextvars

from stream_icd.core.errors import (
    BrokerUnavailable,
    CrashedWorker,
    DeliveryFailed,
    NameTaken,
    RecordTooLarge,
    RecordUndecodable,
)
from stream_icd.kafka.connect import connect
from stream_icd.kafka.delivery.delivery import Delivery, Sink, open_sink, resolve
from stream_icd.kafka.delivery.handler import BatchDone, Handler, Watcher
from stream_icd.kafka.group.held import HeldRecords
from stream_icd.kafka.group.membership import BUSY_POLL_S, Assignment, Batch, GiveBack, Membership
from stream_icd.kafka.group.worker_notes import Attempts, WorkerNotes
from stream_icd.kafka.port import Fenced, GroupMetadata, GroupMovedOn, Offsets
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import group_members, look_up
from stream_icd.kafka.waiting import Clock, Stop, TaskThread

_log = logging.getLogger(__name__)

_NOTE_TIMEOUT_S = 5.0
_AT_ONCE = 5
"""So often a batch is published without a pause between two attempts."""
_LONG_S = 2.0
"""A batch is to be processed within this time. Its first result waits for its last one. A worker
that stops has to finish it, and what is in hand when partitions move is done twice."""


def run_consumer(
    settings: KafkaSettings,
    topic: str,
    group: str,
    handler: Handler,
    stop: Stop,
    *,
    delivery: Delivery = "auto",
    max_records: int = 16,
    watchers: Sequence[Watcher] = (),
    give_up_after_s: float | None = None,
    clock: Clock = Clock(),
) -> Delivery:
    """Consume `topic` in `group` until `stop`, and return the delivery guarantee that was used.

    `handler.handle` gets up to `max_records` records, in offset order within each partition, and
    fewer if a batch would take more than 2 s. If it raises, the error is raised here. `watchers`
    get the events of the loop.

    A partition without a committed offset is read from its beginning. After `stop` is set, the
    batch in hand is finished, or given back if it takes longer than `shutdown_timeout_s`.

    Raises:
        TopicMissing: there is no such topic (any more).
        OffsetGone: retention removed what the group would have read next.
        MessageTooLarge: the next record is larger than the largest accepted fetch response (100 MB
            and `max_message_bytes`).
        RecordTooLarge: a result is larger than its topic accepts, and `handler.learn` raises it.
        OffsetHeld: the broker withholds the group's position for longer than a transaction lasts.
        RecordUndecodable: the next records cannot be decoded; all records before are done.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        NameTaken: another worker has started under the `instance_id` of this one.
        NotAllowed: the broker refuses because we lack a permission.
        NotSupported: exactly-once was requested and this broker does not support it.
        BadSettings: the group already reads another graph than `handler.graph`, or a topic takes no
            such results, as a compacted one takes none without a key.
        BrokerUnavailable: no broker answers at the start. Later, the worker waits for the broker:
            for `give_up_after_s`, or forever.
        DeliveryFailed: results could not be published for as long.
    """
    _, capabilities = look_up(settings, topic)
    guarantee = resolve(settings, delivery, capabilities)
    if capabilities.joins_at_once:  # ready before the group gives us partitions of others
        handler.open()
    else:
        settings = settings.joining_quickly()
    instance = settings.instance_id or uuid.uuid4().hex
    in_hand = max_records * (2 if handler.ahead else 1)
    with closing(WorkerNotes(settings, topic, group)) as notes:
        if handler.gives_up:
            # Before it joins: a worker of another graph would skip records that this group needs.
            notes.keep_to(handler.graph)
            if handler.place:
                notes.note_place(handler.place)
        # Closed after the loop has noted its end: who gets our partitions next reads that note.
        with closing(connect(settings).member(group, max_records, stop)) as consumer:
            tells_ends = capabilities.exact_end_offsets
            member = Membership(
                settings=settings,
                topic=topic,
                group=group,
                member=consumer,
                stop=stop,
                watchers=watchers,
                clock=clock,
                held_records=HeldRecords(settings, clock.now) if tells_ends else None,
                give_up_after_s=give_up_after_s,
            )
            loop = _Loop(
                member,
                _BatchDelivery(member, handler, guarantee, instance),
                Attempts(notes, in_hand if handler.gives_up else 0),
                handler,
                _BatchSize(max_records, handler.at_once or max_records),
                TaskThread(f"{group}-worker"),
            )
            with suppress(GiveBack):
                loop.run(stop)
    return guarantee


class _Begun(NamedTuple):
    batch: Batch
    work: Future[tuple[OutgoingRecord, ...]]


@dataclass(slots=True)
class _Loop:
    """The loop of one member. Records that may have ended a worker come one by one, until the one
    that does is given up."""

    member: Membership
    delivery: _BatchDelivery
    attempts: Attempts
    handler: Handler
    size: _BatchSize
    handler_thread: TaskThread
    announced: Assignment = field(default_factory=dict)

    def run(self, stop: Stop) -> None:
        """Run until `stop`; then finish the batch in hand, or give it back (`GiveBack`)."""
        try:
            self.member.join()
            # Before the first records: it ends the transaction of a former worker of our name,
            # which may hold the offsets to begin at.
            self.member.insist(self.delivery.open)
            # Joining goes on meanwhile, and takes a second at some brokers (`joins_at_once`).
            self.member.wait_for(self.handler.open)
            begun: _Begun | None = None
            while not stop.is_set():
                begun = begun or self._begin()
                if begun is not None:
                    with bound_contextvars(batch=begun.batch.places):
                        begun = self._finish(begun)
                self.member.check()
        finally:
            self._note_the_end()  # first: the member, whose thread writes it, is closed below
            self.handler_thread.close()
            self.member.close()  # before the sink: its thread publishes
            self.delivery.close()

    def _begin(self, timeout_s: float | None = None, before: _Begun | None = None) -> _Begun | None:
        """Poll as `Membership.fetch`, and start processing the records, if there are any; not if
        the batch `before`, which is in processing, fails."""
        # Before the poll: it must not give several records if one of them may have ended a worker.
        assignment = self._take_over()
        polled = self.member.fetch(1 if self._come_alone() else self.size.now, timeout_s)
        if not polled:
            return None
        batch = Batch.of(polled, assignment)
        # Of a partition that is in hand already, the earlier record counts.
        self.member.in_hand = {**batch.first, **self.member.in_hand}
        work = self._work_on(batch, assignment, before)
        return _Begun(batch, self.handler_thread.submit(work))

    def _take_over(self) -> Assignment:
        """Read how new partitions were left, resume all our partitions, and return them."""
        assignment = self.member.assignments.begin()
        while unknown := self.attempts.unknown(assignment):
            self.member.insist(partial(self.attempts.take_over, unknown))
            assignment = self.member.assignments.begin()
        return assignment

    def _come_alone(self) -> bool:
        """Whether one of the next records may have ended a worker; if so, poll one at a time."""
        suspicious = self.attempts.suspicious(self.member.assignments.ours())
        for partition in filter(self.member.is_read, suspicious):
            self.attempts.clear(partition)
        return bool(self.attempts.suspicious(suspicious))

    def _work_on(
        self, batch: Batch, assignment: Assignment, before: _Begun | None
    ) -> Callable[[], tuple[OutgoingRecord, ...]]:
        """The work for a batch: call the handler, or give up the batch's only record."""
        # Before the work begins: a killed worker cannot say any more what it had in hand.
        if news := self.attempts.news(batch.first, self.member.id):
            self.member.insist(partial(self.attempts.write, news))
        ended = self.attempts.given_up(batch.first)
        new = sorted(p.partition for p, _ in assignment.items() - self.announced.items())
        self.announced |= assignment

        def work() -> tuple[OutgoingRecord, ...]:
            # The batch before has ended: there is one thread. If it failed, it is read again first.
            if before is not None and before.work.exception() is not None:
                return ()
            if new:
                self.handler.assigned(new)
            if ended is None:
                with self.size.timed(len(batch.records), self.member.clock):
                    return tuple(self.handler.handle(batch.records))
            (record,) = batch.records
            return tuple(self.handler.give_up(record, ended.ends, ended.how))

        return work

    def _finish(self, begun: _Begun) -> _Begun | None:
        """Wait for a batch and deliver it; return the next one if it was begun meanwhile, so that
        the handler is never without work. If none was there, it is looked for once more before the
        delivery."""
        batch, following = begun.batch, self._begin_ahead(begun, BUSY_POLL_S)
        outgoing = self._result(begun)
        handled = self.member.clock.now()
        if outgoing is not None and following is None:
            following = self._begin_ahead(begun, 0.0)
        if outgoing is not None and self.delivery.deliver(batch, outgoing):
            finished = BatchDone(batch.records, outgoing, self.member.clock.now() - handled)
            # Only now: what is not committed comes again, and needs the state from before.
            self.attempts.done(batch.first)
            self.handler.done(finished)
            for watcher in self.member.watchers:
                watcher.done(finished)
        else:
            _log.warning("%d records of the current batch were not committed", len(batch.records))
            # First the later batch: of two seeks in a partition, the last one counts.
            if following is not None:
                self._read_again(following.batch)
            self._read_again(batch)
            following = None
        self.member.held.known(batch.first)
        self.member.in_hand = {} if following is None else following.batch.first
        return following

    def _result(self, begun: _Begun) -> tuple[OutgoingRecord, ...] | None:
        """What to publish for a batch; None if a process ended that worked on it."""
        try:
            return self.member.finished(begun.work)
        except Exception as error:
            is_of_work = begun.work.done() and begun.work.exception() is error
            if not (is_of_work and self.attempts.ended(begun.batch.first, error)):
                raise
            if not (self.handler.gives_up and isinstance(error, CrashedWorker)):
                raise
            _log.warning("processing the records of the batch one by one: %s", error)
            return None

    def _begin_ahead(self, before: _Begun, timeout_s: float) -> _Begun | None:
        # `_come_alone` would clear the doubt about what is in processing, if it is read to its end.
        in_doubt = self.attempts.suspicious(self.member.assignments.ours())
        if in_doubt or not self.handler.ahead:
            return None
        try:
            return self._begin(timeout_s, before)
        except RecordUndecodable:
            return None  # the error is raised again after the batch before is delivered

    def _read_again(self, batch: Batch) -> None:
        self.announced = {}  # what the handler knows of these partitions may be wrong
        self.member.assignments.rewind(batch.assignment, batch.first)

    def _note_the_end(self) -> None:
        """Note that we work on nothing any more; the broker may be unavailable."""
        ours = self.member.assignments.ours()
        noting = self.member.begin(partial(self.attempts.end, ours))
        answered = concurrent.futures.wait([noting], _NOTE_TIMEOUT_S).done
        # The end does not wait for a broker: at worst, the next worker takes records one by one.
        if error := noting.exception() if answered else "the broker does not answer":
            _log.warning("cannot note how this worker ended: %s", error)


@dataclass(slots=True)
class _BatchDelivery:
    """Delivers the batches of one member, one after the other, and never one twice."""

    member: Membership
    handler: Handler  # learns of results that are too large
    delivery: Delivery  # the guarantee, as `resolve` returns it
    instance: str  # our name in the group, which no other worker has
    _sink: Sink | None = None

    def open(self) -> None:
        """Open a sink; this ends the transaction that an earlier worker of our name left open."""
        member = self.member
        self._sink = open_sink(
            member.settings, self.delivery, member.group, self.instance, member.clock
        )

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()

    def deliver(self, batch: Batch, outgoing: Sequence[OutgoingRecord]) -> bool:
        """Publish and commit; False if the batch, or a part of it, must be read again.

        This happens if another member has the rest of the batch, or if the results must change
        because a topic does not accept them. `run_consumer` says what is raised.
        """
        failures, outage = 0, self.member.outage()
        while True:
            # Before the look at the assignments: if the generation ends in between, the broker
            # refuses it.
            generation = self.member.settled()
            try:
                if self._sink is None:
                    self.member.wait_for(self.open)
                if failures and self._is_committed(batch):
                    return True  # the attempt with the unknown outcome had succeeded
                if not self.member.assignments.holds(batch.assignment):
                    return False
                publishing = partial(self._publish, outgoing, batch.next, generation)
                committed = self.member.wait_for(publishing)
                # The commit comes last: a crash before it repeats results, but loses none.
                return committed or self.member.commit(batch)
            except GroupMovedOn as error:
                _log.info("publishing again in the group's new generation: %s", error)
            except RecordTooLarge as error:
                self.member.insist(partial(self.handler.learn, error))
                _log.warning("processing the batch again: %s", error)
                return False
            except BrokerUnavailable as error:
                self.member.back_off(error, outage)
            except DeliveryFailed as error:
                self._see_who_has_our_name(error)
                failures += 1
                if failures < _AT_ONCE:
                    _log.warning("publishing again (attempt %d): %s", failures + 1, error)
                else:
                    self.member.back_off(error, outage)
                self.member.check_topic()  # or the client retries forever

    def _publish(
        self, outgoing: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata
    ) -> bool:
        """Publish the results of a batch; True if its offsets are committed with them."""
        sink = self._sink
        assert sink is not None, "opened before"
        try:
            sink.publish(outgoing, offsets, group)
        except (DeliveryFailed, BrokerUnavailable, RecordTooLarge):
            # What became of its records is not known: they must not mix with those of a next try.
            self._sink = None
            sink.close()
            raise
        return sink.atomic

    def _is_committed(self, batch: Batch) -> bool:
        """Whether the part of the batch that is still ours was committed; if so, all of it was. The
        broker answers only when no open transaction holds these offsets."""
        ours = self.member.assignments.kept(batch.assignment)
        return bool(ours) and all(self.member.committed(p) == batch.next[p] for p in ours)

    def _see_who_has_our_name(self, failure: DeliveryFailed) -> None:
        """Raise NameTaken if another worker has the name that was set for this one.

        The broker also fences a worker whose transaction took too long; that worker may continue,
        unless it hung until another one was started in its place.
        """
        name = self.member.settings.instance_id
        if name is None or not isinstance(failure, NameTaken | Fenced):
            return
        if isinstance(failure, NameTaken) or self.member.wait_for(self._has_namesake):
            raise NameTaken(
                f"another worker of group {self.member.group} has started with the same name "
                f"(STREAM_ICD_INSTANCE_ID={name}) and has replaced this one. To run both, give "
                "each its own name"
            ) from failure

    def _has_namesake(self) -> bool:
        members = group_members(self.member.settings, self.member.group)
        own, ours = self.member.id, self.member.settings.member_name
        return any(name == ours and member != own for member, name in members.items())


@dataclass(slots=True)
class _BatchSize:
    """Follows the time that records take: few heavy ones or many light ones are a batch."""

    most: int  # maximum number of records
    least: int  # minimum limit, however long they take
    now: int = field(init=False)  # the present limit

    def __post_init__(self) -> None:
        self.now = self.least = min(self.least, self.most)

    @contextmanager
    def timed(self, n_records: int, clock: Clock) -> Iterator[None]:
        """Measure how long this block takes for a batch, and adapt the limit."""
        began = clock.now()
        yield
        seconds = clock.now() - began
        if seconds > _LONG_S:
            self.now = max(n_records // 2, self.least)
        elif n_records >= self.now and 2 * seconds <= _LONG_S:
            self.now = min(2 * self.now, self.most)
