"""Deliver batches: results and offsets in one transaction, or one after the other."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    NotAllowed,
    NotSupported,
    RecordTooLarge,
    TopicMissing,
)
from stream_icd.kafka.connect import connect
from stream_icd.kafka.delivery.handler import Handler
from stream_icd.kafka.group.membership import Batch, Membership
from stream_icd.kafka.port import Capabilities, Fenced, GroupMetadata, GroupMovedOn, Offsets
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import members_of
from stream_icd.kafka.waiting import Clock, Worker

_log = logging.getLogger(__name__)

_AT_ONCE = 5
"""So often a batch is published without a pause between two attempts."""
# A fraction of the transaction timeout: a producer fenced before that did not take too long.
# The margin is for the broker, which measures with its own clock.
_CERTAIN = 0.9


Delivery = Literal["auto", "exactly-once", "at-least-once"]
"""The guarantee for results when a worker or the broker fails.

At least once: every result arrives; after a failure some arrive twice. Exactly once: readers of
committed records see every result once. Auto: exactly once where the broker can do it.
"""


def resolve(settings: KafkaSettings, wanted: Delivery, known: Capabilities) -> Delivery:
    """The guarantee to use on this broker; logs a warning if auto becomes at-least-once.

    Raises `NotSupported` if exactly-once was requested, and the broker shows aborted records.
    """
    if wanted == "at-least-once":
        return wanted
    if known.hides_aborted:
        return "exactly-once"
    broker = f"the broker at {settings.bootstrap_servers} ({known.software})"
    if wanted == "auto":
        _log.warning(
            "delivery is at-least-once: %s is not known to hide aborted records from readers",
            broker,
        )
        return "at-least-once"
    if known.hides_aborted is None:
        _log.warning("exactly-once only if %s hides aborted records from readers", broker)
        return wanted
    raise NotSupported(
        f"exactly-once is not possible: {broker} does not hide aborted records from readers. Use "
        "at-least-once, or Apache Kafka"
    )


class AtLeastOnce:
    """Publishes results; the consumer commits its offsets afterwards.

    `atomic`: readers of committed records see all records of a batch and its offsets, or none.
    """

    atomic = False

    def __init__(self, settings: KafkaSettings) -> None:
        self._publisher = Publisher(settings)

    def check(self, record: OutgoingRecord) -> None:
        """Raise RecordTooLarge or TopicMissing if `record` cannot be published at all."""
        self._publisher.check(record)

    def publish(
        self, records: Sequence[OutgoingRecord], _offsets: Offsets, _group: GroupMetadata | None
    ) -> None:
        """Return when the broker has acknowledged all of `records`; commit no offsets.

        Raises:
            RecordTooLarge: a topic does not accept one of the records; open another sink.
            BrokerError: it is unknown what is visible; open another sink before the next try.
        """
        for record in records:
            self._publisher.send(record)
        self._publisher.flush()

    def close(self) -> None:
        self._publisher.close()


class ExactlyOnce:
    """Results and offsets in one transaction, fenced by the group's generation (KIP-447).

    With an `instance_id` in the settings, a restarted worker immediately ends the transaction that
    it left open. Without one, the transaction stays open until `transaction_timeout_s`.

    A broker fences a producer for one of two reasons and does not say which: another producer
    started under the same name, or its own transaction took longer than `transaction_timeout_s`.
    If the transaction took less, the reason is the first one: `NameTaken`.
    """

    atomic = True

    def __init__(self, settings: KafkaSettings, group: str, instance: str, clock: Clock) -> None:
        self._timeout_s = settings.transaction_timeout_s  # by then the broker has aborted it
        self._name = f"{group}-{instance}"
        self._clock = clock
        self._producer = connect(settings).transactional_producer(self._name)
        self._publisher = Publisher(settings, self._producer)
        self._caller = Worker("transaction")

    def check(self, record: OutgoingRecord) -> None:
        self._publisher.check(record)

    def publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        """Return when the transaction is committed; without a `group`, it holds no offsets.

        Raises:
            GroupMovedOn: no record is visible; the group has a new generation.
            NameTaken: no record is visible; another program has our name now.
            RecordTooLarge, BrokerError: as `AtLeastOnce.publish`.
        """
        began = self._clock.now()
        try:
            self._producer.begin()
            for record in records:
                self._publisher.send(record)
            self._publisher.flush(self._timeout_s)
            if offsets and group is not None:
                self._in_time("send_offsets", partial(self._producer.send_offsets, offsets, group))
            self._in_time("commit", self._producer.commit)
        except GroupMovedOn:
            self._in_time("abort", self._producer.abort)
            raise
        except (MessageTooLarge, TopicMissing, NotAllowed, BadSettings):
            with contextlib.suppress(BrokerError):  # the earlier error is the one to report
                self._in_time("abort", self._producer.abort)  # readers wait for an open transaction
            raise
        except DeliveryFailed as error:
            if _is_fenced(error) and self._clock.now() - began < _CERTAIN * self._timeout_s:
                raise NameTaken(
                    f"another program has started transactions as {self._name}"
                ) from error
            raise

    def close(self) -> None:
        self._caller.close()
        self._publisher.close()

    def _in_time(self, name: str, call: Callable[[], None]) -> None:
        """Call the client in another thread, because it waits for the broker without a timeout."""
        try:
            self._caller.submit(call).result(self._timeout_s)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"the broker did not answer {name} within {self._timeout_s:g} s"
            ) from error


Sink = AtLeastOnce | ExactlyOnce


def open_sink(
    settings: KafkaSettings, delivery: Delivery, group: str, instance: str, clock: Clock = Clock()
) -> Sink:
    """The sink for a delivery that `resolve` returned; no two workers may share an `instance`."""
    if delivery == "exactly-once":
        return ExactlyOnce(settings, group, instance, clock)
    return AtLeastOnce(settings)


def _is_fenced(error: BaseException) -> bool:
    return isinstance(error, Fenced) or isinstance(error.__cause__, Fenced)


@dataclass(slots=True)
class BatchDelivery:
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
            self._sink = None
            sink.close()
            raise
        return sink.atomic

    def _is_committed(self, batch: Batch) -> bool:
        """Whether the part of the batch that is still ours was committed; if so, all of it was. The
        broker answers only when no open transaction holds these offsets."""
        kept = self.member.assignments.kept(batch.assignment)
        return bool(kept) and all(self.member.committed(p) == batch.next[p] for p in kept)

    def _see_who_has_our_name(self, failure: DeliveryFailed) -> None:
        """Raise NameTaken if another worker has the name that was set for this one.

        The broker also fences a worker whose transaction took too long; that worker may continue,
        unless it hung until another one was started in its place.
        """
        name = self.member.settings.instance_id
        if name is None or not (isinstance(failure, NameTaken) or _is_fenced(failure)):
            return
        if isinstance(failure, NameTaken) or self.member.wait_for(self._has_namesake):
            raise NameTaken(
                f"another worker of group {self.member.group} has started with the same name "
                f"(STREAM_ICD_INSTANCE_ID={name}) and has replaced this one. To run both, give "
                "each its own name"
            ) from failure

    def _has_namesake(self) -> bool:
        members = members_of(self.member.settings, self.member.group)
        own, ours = self.member.id, self.member.settings.member_name
        return any(name == ours and member != own for member, name in members.items())
