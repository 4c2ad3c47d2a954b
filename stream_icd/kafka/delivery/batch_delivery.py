"""Deliver a batch: publish and commit it, retry failures, and never deliver it twice."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from functools import partial

from stream_icd.errors import BrokerUnavailable, DeliveryFailed, NameTaken, RecordTooLarge
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.delivery.delivery import (
    Delivery,
    Sink,
    is_fenced,
    open_sink,
)
from stream_icd.kafka.delivery.handler import Handler
from stream_icd.kafka.group.assignments import Batch
from stream_icd.kafka.group.groups import members_of
from stream_icd.kafka.group.membership import Membership
from stream_icd.kafka.group.periodic_checks import PeriodicChecks
from stream_icd.kafka.port.broker import GroupMetadata, GroupMovedOn
from stream_icd.kafka.port.topic import Offsets, TopicPartition
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

PUBLISH_ATTEMPTS = 5


class BatchDelivery:
    """Delivers the batches of one member, one after the other.

    Args:
        checks: looks after each failure whether the topic is there and positions are known.
        handler: learns of results that are too large.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        group: str,
        delivery: Delivery,
        member: Membership,
        checks: PeriodicChecks,
        handler: Handler,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._group = group
        self._delivery = delivery
        self._member = member
        self._checks = checks
        self._handler = handler
        self._clock = clock
        self._instance = settings.instance_id or uuid.uuid4().hex
        self._sink: Sink | None = None

    def open(self) -> None:
        """Prepare to publish, and end the transaction that an earlier worker of our name left
        open."""
        self._sink = open_sink(
            self._settings, self._delivery, self._group, self._instance, self._clock
        )

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()

    def deliver(self, batch: Batch, outgoing: Sequence[OutgoingRecord]) -> bool:
        """Publish and commit; False if the batch, or a part of it, must be read again.

        This happens if another member has the rest of the batch, or if the results must change
        because a topic does not accept them.

        Raises:
            DeliveryFailed: it could not be published in 5 attempts.
            RecordTooLarge: a result is larger than its topic accepts, and `Handler.learn` raises.
            NameTaken, OffsetHeld, TopicMissing, NotAllowed: as `run_consumer`.
        """
        failures = 0
        while True:
            generation = self._member.settled()
            try:
                if self._sink is None:  # opening one ends an open transaction
                    self._member.wait_for(self.open)
                if failures and self._is_committed(batch):
                    return True  # the attempt with the unknown outcome had succeeded
                if not self._member.assignments.holds(batch.assignment):
                    return False
                self._member.wait_for(partial(self._publish, outgoing, batch.next, generation))
                return self._delivery is Delivery.EXACTLY_ONCE or self._commit(batch)
            except GroupMovedOn as error:
                log.info("publishing again in the group's new generation: %s", error)
            except RecordTooLarge as error:
                self._member.insist(partial(self._handler.learn, error))
                log.warning("processing the batch again: %s", error)
                return False
            except BrokerUnavailable as error:
                self._member.back_off(error)
            except DeliveryFailed as error:
                self._see_who_has_our_name(error)
                failures += 1
                if failures == PUBLISH_ATTEMPTS:
                    raise
                log.warning("publishing again (attempt %d): %s", failures + 1, error)
                self._checks.look_at_topic()  # or the client retries forever

    def _publish(
        self, outgoing: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata
    ) -> None:
        sink = self._sink
        assert sink is not None, "opened before"
        try:
            sink.publish(outgoing, offsets, group)
        except (DeliveryFailed, BrokerUnavailable, RecordTooLarge):
            self._sink = None
            sink.close()
            raise

    def _commit(self, batch: Batch) -> bool:
        """Commit the published batch; False if a part of it went to another member."""
        while True:
            try:
                if self._member.commit(batch):
                    return True
            except GroupMovedOn:
                self._member.settled()
            if not self._member.assignments.holds(batch.assignment):
                return False

    def _is_committed(self, batch: Batch) -> bool:
        """Whether the part of the batch that is still ours was committed; if so, all of it was.

        The broker answers only when no open transaction holds these offsets.
        """
        kept = self._member.assignments.kept(batch.assignment)
        return bool(kept) and all(self._next(p) == batch.next[p] for p in kept)

    def _next(self, partition: TopicPartition) -> int | None:
        try:
            found = self._member.committed(partition)
        except BrokerUnavailable:
            self._member.wait_for(partial(self._checks.held.unknown, [partition]))
            raise
        self._checks.held.known([partition])
        return found

    def _see_who_has_our_name(self, failure: DeliveryFailed) -> None:
        """If the failure is a fence, check that no other worker caused it.

        The broker also fences a worker whose transaction took too long; that worker may continue.
        A worker that hung until another one was started in its place also took too long, but it
        may not continue.

        Raises:
            NameTaken: another worker has the name that was set for this one.
        """
        name = self._settings.instance_id
        if name is None or not (isinstance(failure, NameTaken) or is_fenced(failure)):
            return
        if isinstance(failure, NameTaken) or self._member.wait_for(self._has_namesake):
            raise NameTaken(
                f"another worker of group {self._group} has started with the same name "
                f"(STREAM_ICD_INSTANCE_ID={name}) and has replaced this one. To run both, give "
                "each its own name"
            ) from failure

    def _has_namesake(self) -> bool:
        members = members_of(self._settings, self._group)
        own = self._member.id
        ours = self._settings.member_name
        return any(name == ours and member != own for member, name in members.items())
