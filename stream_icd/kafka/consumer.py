"""Consume a topic as one of a group: read, hand over, publish, commit, and keep the group's faith.

While a batch is in hand its partitions are paused and the loop keeps polling: however long the
work takes, the worker stays in its group and answers rebalances. A batch of which any partition
went to somebody else meanwhile is not committed; what is still ours of it is read again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as client
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.structs import MemberState
from structlog.contextvars import bound_contextvars

from stream_icd.errors import (
    BrokerError,
    BrokerUnavailable,
    ClientStuck,
    DeliveryFailed,
    NameTaken,
    OffsetGone,
    RecordTooLarge,
    RecordUndecodable,
)
from stream_icd.kafka.attempts import Attempts, blames_record
from stream_icd.kafka.batch_done import BatchDone
from stream_icd.kafka.clients import client_name, open_consumer
from stream_icd.kafka.delivery import (
    GROUP_MOVED_ON,
    Delivery,
    GroupMovedOn,
    NextOffsets,
    Outlet,
    is_fenced,
    open_outlet,
    resolve,
)
from stream_icd.kafka.groups import members_of
from stream_icd.kafka.held_offsets import HeldOffsets
from stream_icd.kafka.poll import Poller
from stream_icd.kafka.reader import our_record, what_is_left
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings, milliseconds
from stream_icd.kafka.standing import Lag, is_read, position, settled_generation, silence_s
from stream_icd.kafka.stop import Stop
from stream_icd.kafka.tenures import Tenure, Tenures
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.translate import translate, translated
from stream_icd.kafka.watcher import Watcher
from stream_icd.kafka.workarounds.fetched_records import Undecodable
from stream_icd.kafka.workarounds.membership import keep_joining
from stream_icd.kafka.worker import Worker

log = logging.getLogger(__name__)
Result = TypeVar("Result")

Handle = Callable[[Sequence[Record]], Iterable[OutgoingRecord]]
GiveUp = Callable[[Record, str], Iterable[OutgoingRecord]]
Learn = Callable[[RecordTooLarge], object]

POLL_MS = 200
# While work is in hand: how often to poll, and how long a poll may take from a result's latency.
BUSY_POLL_EVERY_S = 0.1
BUSY_POLL_MS = 10
COMMIT_TIMEOUT_S = 2.0
BACKOFF_S = 1.0
NOTE_TIMEOUT_S = 5.0
TOPIC_CHECK_EVERY_S = 30.0
PUBLISH_ATTEMPTS = 5


class _GiveBack(Exception):
    """We were asked to stop, and what is in hand would take too long: somebody else does it."""


def run_consumer(
    settings: KafkaSettings,
    topic: str,
    group: str,
    handle: Handle,
    stop: Stop,
    *,
    delivery: Delivery = Delivery.AUTO,
    max_records: int = 16,
    on_done: Callable[[BatchDone], None] = lambda _: None,
    watcher: Watcher | None = None,
    ahead: bool = False,
    give_up: GiveUp | None = None,
    learn: Learn | None = None,
) -> Delivery:
    """Consume `topic` in `group` until `stop`, and return the delivery that was kept.

    `handle` gets up to `max_records` records, in offset order within each partition, and gives
    what to publish. It runs in a thread of its own, one batch at a time. When it raises, nothing
    of its batch is published or committed, and the error is raised here: so it should set bad
    records aside (publish them to the dead-letter topic) rather than raise.

    A partition that the group never committed is read from its beginning. After `stop` is set the
    batch in hand is finished, or given back when it takes longer than `shutdown_timeout_s`; then
    the group is left.

    Args:
        on_done: called after each commit: what `handle` remembers counts from then on.
        watcher: told how the loop is doing; changes nothing.
        ahead: have `handle` begin the next batch while the results of one are published, for work
            that needs no memory of the batch before. What was begun after a batch that could not
            be committed, or when `stop` is set, is dropped.
        give_up: what to publish for a record that ended three workers in a row, and how it did:
            by a `kill -9` of the process, or an error out of `handle` that may be its fault. It
            is remembered across restarts in the topic `icd.workers.v1`. None: nothing is
            remembered, and such a record is tried for ever.
        learn: told of a result that its topic does not take. Nothing of its batch is committed,
            and `handle` gets the batch again; it must not give a result of that size any more.
            None: such a result ends the worker.

    Raises:
        TopicMissing: there is no such topic (any more).
        OffsetGone: retention removed what the group would have read next.
        MessageTooLarge: the next record is larger than what is taken as one answer (100 MB and
            `max_message_bytes`).
        RecordTooLarge: a result is larger than its topic takes, and nobody is there to `learn`.
        OffsetHeld: the broker keeps the group's position back, longer than a transaction lasts.
        RecordUndecodable: what the topic holds next cannot be decoded; all before it is done.
        ClientStuck: the client has not returned for `max_poll_interval_s`.
        NameTaken: another worker has started under the `instance_id` of this one.
        NotAllowed: the broker refuses, because of who we are.
        NotSupported: exactly-once was asked for and this broker cannot.
        BrokerUnavailable: nobody answers at the start. Later, the broker is waited for.
        DeliveryFailed: results could not be published in 5 attempts.
    """
    describe_topic(settings, topic)
    kept = resolve(settings, delivery)
    consumer = open_consumer(
        settings,
        group_id=group,
        client_id=client_name(settings),
        max_poll_records=max_records,
        session_timeout_ms=milliseconds(settings.session_timeout_s),
        heartbeat_interval_ms=milliseconds(settings.heartbeat_interval_s),
        max_poll_interval_ms=milliseconds(settings.max_poll_interval_s),
        partition_assignment_strategy=(CooperativeStickyAssignor,),
    )
    poller = Poller(consumer, stop, settings)
    try:
        with contextlib.suppress(_GiveBack):
            loop = _Loop(
                settings,
                topic,
                group,
                kept,
                consumer,
                poller,
                stop,
                on_done,
                watcher or Watcher(),
                ahead,
                give_up,
                learn,
            )
            loop.run(handle)
    finally:
        poller.close()
    return kept


@dataclass(frozen=True, slots=True)
class _Batch:
    records: tuple[Record, ...]
    tenure: Tenure
    first: dict[TopicPartition, int]
    next: NextOffsets

    @staticmethod
    def of(polled: dict[TopicPartition, list[Any]], tenure: Tenure) -> _Batch:
        return _Batch(
            records=tuple(our_record(r) for records in polled.values() for r in records),
            tenure={p: tenure[p] for p in polled},
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


@dataclass(frozen=True, slots=True)
class _Begun:
    """A batch that is worked on, since a time of the monotonic clock."""

    batch: _Batch
    work: Future[tuple[OutgoingRecord, ...]]
    since: float


class _Loop:
    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        group: str,
        delivery: Delivery,
        consumer: Any,
        poller: Poller,
        stop: Stop,
        on_done: Callable[[BatchDone], None],
        watcher: Watcher,
        ahead: bool,
        give_up: GiveUp | None,
        learn: Learn | None,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._delivery = delivery
        self._consumer = consumer
        self._poller = poller
        self._worker = Worker(f"{group}-worker")
        self._errands = Worker(f"{group}-errands")
        self._ahead = ahead
        self._stop = stop
        self._on_done = on_done
        self._watcher = watcher
        self._give_up = give_up
        self._learn = learn
        in_hand = consumer.config["max_poll_records"] * (2 if ahead else 1)
        self._attempts = Attempts(settings, topic, group, in_hand)
        self._crash: BaseException | None = None
        self._lag = Lag(consumer)
        self._held = HeldOffsets(settings, group)
        self._in_hand: dict[TopicPartition, int] = {}
        self._tenures = Tenures(consumer)
        self._instance = settings.instance_id or uuid.uuid4().hex
        self._outlet: Outlet | None = None
        self._stop_by = float("inf")
        self._topic_seen = time.monotonic()

    def run(self, handle: Handle) -> None:
        try:
            self._consumer.subscribe([self._topic], listener=self._tenures)
            self._open_outlet()
            begun: _Begun | None = None
            while not self._stop.is_set():
                begun = begun or self._begin(handle, POLL_MS)
                if begun is not None:
                    with bound_contextvars(batch=begun.batch.places):
                        begun = self._finish(begun, handle)
                self._check_standing()
        finally:
            self._note_the_end()
            self._worker.close()
            self._errands.close()
            if self._outlet is not None:
                self._outlet.close()

    def _begin(self, handle: Handle, timeout_ms: int) -> _Begun | None:
        """Have the records that come within that time worked on, if any do."""
        tenure = self._taken_over()
        polled = self._poll(timeout_ms, 1 if self._suspicious() else None)
        self._lag.fetched()
        if not polled:
            return None
        batch = _Batch.of(polled, tenure)
        self._in_hand = batch.first | self._in_hand
        work = self._worker.submit(self._work_on(batch, handle))
        return _Begun(batch, work, time.monotonic())

    def _work_on(self, batch: _Batch, handle: Handle) -> Callable[[], tuple[OutgoingRecord, ...]]:
        """What to do with a batch: hand it over, or give up its only record."""
        if self._give_up is not None:
            worker = self._consumer.group_metadata().member_id
            self._insist(partial(self._attempts.begin, batch.first, worker))
            how = self._attempts.given_up(batch.first)
            if how is not None:
                give_up, (record,) = self._give_up, batch.records
                return lambda: tuple(give_up(record, how))
        return lambda: tuple(handle(batch.records))

    def _taken_over(self) -> Tenure:
        """Our partitions, once it is known how those that came were left; records may come."""
        tenure = self._tenures.begin()
        while self._give_up is not None and (unknown := self._attempts.unknown(tenure)):
            self._insist(partial(self._attempts.take_over, unknown))
            tenure = self._tenures.begin()
        return tenure

    def _suspicious(self) -> bool:
        """Whether a record that comes next may have ended a worker: then it comes alone."""
        suspicious = self._attempts.suspicious(self._tenures.ours())
        for partition in suspicious:
            if is_read(self._consumer, partition):
                self._attempts.clear(partition)
        return bool(self._attempts.suspicious(suspicious))

    def _insist(self, work: Callable[[], object]) -> None:
        """Have `work` done in the background, again and again while the broker is away."""
        while True:
            try:
                self._wait_for(work)
                return
            except (BrokerUnavailable, DeliveryFailed) as error:
                log.warning("waiting for the broker: %s", error)
                self._wait_for(partial(time.sleep, BACKOFF_S))

    def _note_the_end(self) -> None:
        """Note that we end in good order, unless a record has ended us; the broker may be away."""
        if self._give_up is None:
            return
        noting = self._errands.submit(self._attempts.end, self._tenures.ours(), self._crash)
        if not concurrent.futures.wait([noting], NOTE_TIMEOUT_S).done or noting.exception():
            log.warning("it could not be noted how this worker ended: %s", noting)

    def _finish(self, begun: _Begun, handle: Handle) -> _Begun | None:
        """Deliver a batch once it is worked on; the one after it, if that was begun meanwhile."""
        batch, outgoing = begun.batch, self._result(begun.work)
        handled = time.monotonic()
        following = self._begin_ahead(handle) if self._ahead and not self._suspicious() else None
        if self._deliver(batch, outgoing):
            published = time.monotonic() - handled
            done = BatchDone(batch.records, outgoing, handled - begun.since, published)
            if self._give_up is not None:
                self._attempts.done(batch.first)
            self._on_done(done)
            self._watcher.done(done)
        else:
            log.warning("%d records in hand were not committed", len(batch.records))
            if following is not None:  # it comes after what is read again
                self._tenures.rewind(following.batch.tenure, following.batch.first)
            self._tenures.rewind(batch.tenure, batch.first)
            following = None
        self._held.known(batch.first)
        self._in_hand = {} if following is None else following.batch.first
        return following

    def _result(self, work: Future[tuple[OutgoingRecord, ...]]) -> tuple[OutgoingRecord, ...]:
        try:
            return self._finished(work)
        except Exception as error:
            if work.done() and work.exception() is error and blames_record(error):
                self._crash = error
            raise

    def _begin_ahead(self, handle: Handle) -> _Begun | None:
        try:
            return self._begin(handle, BUSY_POLL_MS)
        except RecordUndecodable:
            return None  # it is raised again when what came before it is delivered

    def _deliver(self, batch: _Batch, outgoing: Sequence[OutgoingRecord]) -> bool:
        """Publish and commit; False where the batch must be read again, or a part of it.

        Somebody else has the rest of it; or its results must be other ones, as a topic does not
        take them.
        """
        failures = 0
        while True:
            generation = self._stable_membership()
            try:
                if self._outlet is None:  # opening one ends what a failed attempt left open
                    self._wait_for(self._open_outlet)
                if failures and self._is_committed(batch):
                    return True  # the attempt whose outcome was unknown had succeeded
                if not self._tenures.holds(batch.tenure):
                    return False
                self._wait_for(partial(self._publish, outgoing, batch.next, generation))
                return self._delivery is Delivery.EXACTLY_ONCE or self._commit(batch)
            except GroupMovedOn as error:
                log.info("publishing again in the group's new generation: %s", error)
            except RecordTooLarge as error:
                if self._learn is None:
                    raise
                log.warning("handling the batch again: %s", error)
                self._insist(partial(self._learn, error))
                return False
            except BrokerUnavailable as error:
                log.warning("waiting for the broker: %s", error)
                self._wait_for(partial(time.sleep, BACKOFF_S))
            except DeliveryFailed as error:
                self._see_who_has_our_name(error)
                failures += 1
                if failures == PUBLISH_ATTEMPTS:
                    raise
                log.warning("publishing again (attempt %d): %s", failures + 1, error)
                self._see_topic()  # of one that is gone, the client asks for ever

    def _publish(
        self, outgoing: Sequence[OutgoingRecord], offsets: NextOffsets, group: Any
    ) -> None:
        outlet = self._outlet
        assert outlet is not None, "opened before"
        try:
            outlet.publish(outgoing, offsets, group)
        except (DeliveryFailed, BrokerUnavailable, RecordTooLarge):
            self._outlet = None
            outlet.close()
            raise

    def _open_outlet(self) -> None:
        self._outlet = open_outlet(self._settings, self._delivery, self._group, self._instance)

    def _see_who_has_our_name(self, failure: DeliveryFailed) -> None:
        """Where a fence is the reason for a failure, see that it is not another worker's.

        A broker also fences who took too long, and that one may go on. A worker that stood still
        until another one was started in its place has taken too long as well, and may not.

        Raises:
            NameTaken: another worker has the name that was set for this one.
        """
        name = self._settings.instance_id
        if name is None or not (isinstance(failure, NameTaken) or is_fenced(failure)):
            return
        if isinstance(failure, NameTaken) or self._wait_for(self._has_namesake):
            raise NameTaken(
                f"another worker of group {self._group} has started under the name of this one "
                f"(STREAM_ICD_INSTANCE_ID={name}) and has taken its place. If both are meant to "
                "work, give each a name of its own"
            ) from failure

    def _has_namesake(self) -> bool:
        members = members_of(self._settings, self._group)
        own = self._consumer.group_metadata().member_id
        ours = client_name(self._settings)
        return any(name == ours and member != own for member, name in members.items())

    def _commit(self, batch: _Batch) -> bool:
        while True:
            try:
                self._consumer.commit(batch.next, timeout_ms=COMMIT_TIMEOUT_S * 1000)
                return True
            except GROUP_MOVED_ON:
                self._stable_membership()
            except client.RetriableError as error:
                log.warning("committing again: %s", error)
                self._poll_while_busy()
            except client.KafkaError as error:
                raise translate(error, f"commit {batch.places} of group {self._group}") from error
            if not self._tenures.holds(batch.tenure):
                return False

    def _is_committed(self, batch: _Batch) -> bool:
        """Whether what is still ours of the batch was committed, and so all of it was.

        The broker answers only once no open transaction holds these offsets any more.
        """
        kept = self._tenures.kept(batch.tenure)
        return bool(kept) and all(
            self._committed(partition) == batch.next[partition].offset for partition in kept
        )

    def _committed(self, partition: TopicPartition) -> int | None:
        try:
            with translated("look up what is committed"):
                found = self._consumer.committed(partition, timeout_ms=COMMIT_TIMEOUT_S * 1000)
        except BrokerUnavailable:
            self._wait_for(partial(self._held.unknown, [partition]))
            raise
        self._held.known([partition])
        return cast(int | None, found)

    def _stable_membership(self) -> Any:
        """The group's current generation, once we are a member of it; polls until we are.

        Taken before looking at the tenure: a generation that ends in between is then refused by
        the broker. One without a member would not be fenced at all (KIP-447).
        """
        while True:
            membership = self._consumer.group_metadata()
            if membership.state == MemberState.STABLE and membership.generation_id >= 0:
                return membership
            self._poll_while_busy()

    def _wait_for(self, work: Callable[[], Result]) -> Result:
        """Have `work` done in the background, and keep polling until it is."""
        return self._finished(self._errands.submit(work))

    def _finished(self, future: Future[Result]) -> Result:
        while not concurrent.futures.wait([future], timeout=self._pause_s()).done:
            self._poll_while_busy()
        return future.result()

    def _poll_while_busy(self) -> None:
        """Take part in the group without taking records."""
        if self._stop.is_set():
            self._stop_by = min(self._stop_by, time.monotonic() + self._settings.shutdown_timeout_s)
        if time.monotonic() > self._stop_by:
            raise _GiveBack
        self._tenures.pause()
        if self._poll(BUSY_POLL_MS if self._is_member() else POLL_MS):
            raise BrokerError("the client gave records of paused partitions")

    def _poll(
        self, timeout_ms: int, max_records: int | None = None
    ) -> dict[TopicPartition, list[Any]]:
        polled = self._polled(timeout_ms, max_records)
        self._watcher.polled(settled_generation(self._consumer), silence_s(self._consumer))
        just_now = {p: records[0].offset for p, records in polled.items()}
        lag = self._lag.look(self._tenures.ours(), just_now | self._in_hand)
        if lag is not None:
            self._watcher.lagged(lag)
        return polled

    def _polled(self, timeout_ms: int, max_records: int | None) -> dict[TopicPartition, list[Any]]:
        try:
            polled = self._poller.poll(timeout_ms, max_records)
            keep_joining(self._consumer)
            return polled
        except client.NoOffsetForPartitionError as error:
            for partition in error.args[0]:  # the group never committed it
                with contextlib.suppress(ValueError):  # it may have gone just now
                    self._consumer.seek_to_beginning(partition)
        except client.OffsetOutOfRangeError as error:
            raise OffsetGone(
                f"group {self._group}: {error}; {what_is_left(self._consumer)}. To go on there, "
                f"{self._skip}"
            ) from error
        except Undecodable as error:
            raise RecordUndecodable(
                f"group {self._group}: {error}. To go on after them, {self._skip} "
                f"--to {error.partition.partition}:{error.end}"
            ) from error
        except ClientStuck as error:
            if self._stop.is_set():
                raise _GiveBack from error
            raise ClientStuck(f"{error}: {self._skip} --to PARTITION:OFFSET") from error
        except client.RetriableError as error:
            log.warning("polling again: %s", error)
        except client.KafkaError as error:
            with translated(f"consume {self._topic}"):
                raise error
        return {}

    @property
    def _skip(self) -> str:
        """How to pass over records, in a sentence of an error."""
        return (
            f"stop the group and run: stream-icd topics skip --group {self._group} "
            f"--topic {self._topic}"
        )

    def _is_member(self) -> bool:
        return bool(self._consumer.group_metadata().state == MemberState.STABLE)

    def _pause_s(self) -> float:
        """Between two polls; none while joining, since the client (3.0.12) joins once more where
        a join succeeds between two polls."""
        return BUSY_POLL_EVERY_S if self._is_member() else 0.0

    def _check_standing(self) -> None:
        """Now and then see that there is a topic, and in each partition a place to read on."""
        if time.monotonic() - self._topic_seen > TOPIC_CHECK_EVERY_S:
            self._see_topic()
            self._see_positions()

    def _see_positions(self) -> None:
        ours = self._tenures.ours()
        missing = [partition for partition in ours if position(self._consumer, partition) is None]
        if missing:
            self._wait_for(partial(self._held.unknown, missing))
        else:
            self._held.known(ours)

    def _see_topic(self) -> None:
        with contextlib.suppress(BrokerUnavailable):
            self._wait_for(lambda: describe_topic(self._settings, self._topic))
        self._topic_seen = time.monotonic()
