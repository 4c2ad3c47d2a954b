"""Publish results: in one transaction with the offsets of what they come from, or before these."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Literal

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    NotAllowed,
    NotSupported,
    TopicMissing,
)
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import (
    Capabilities,
    Fenced,
    GroupMetadata,
    GroupMovedOn,
    Offsets,
    Producer,
)
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Clock, TaskThread

_log = logging.getLogger(__name__)

# A fraction of the transaction timeout: a producer fenced before that did not take too long.
# The margin is for the broker, which measures with its own clock.
_CERTAIN = 0.9

Delivery = Literal["auto", "exactly-once", "at-least-once"]
"""The guarantee for results when a worker or the broker fails.

At least once: every result arrives; after a failure some arrive twice. Exactly once: readers of
committed records see every result once. Auto: exactly once where the broker can do it.
"""


def resolve(settings: KafkaSettings, delivery: Delivery, capabilities: Capabilities) -> Delivery:
    """The guarantee to use on this broker; logs a warning if auto becomes at-least-once.

    Raises `NotSupported` if exactly-once was requested, and the broker shows aborted records.
    """
    if delivery == "at-least-once":
        return delivery
    if capabilities.hides_aborted:
        return "exactly-once"
    broker = f"the broker at {settings.bootstrap_servers} ({capabilities.software})"
    if delivery == "auto":
        _log.warning(
            "delivery is at-least-once: %s is not known to hide aborted records from readers",
            broker,
        )
        return "at-least-once"
    if capabilities.hides_aborted is None:
        _log.warning("exactly-once only if %s hides aborted records from readers", broker)
        return delivery
    raise NotSupported(
        f"exactly-once is not possible: {broker} does not hide aborted records from readers. Use "
        "at-least-once, or Apache Kafka"
    )


def open_sink(
    settings: KafkaSettings, delivery: Delivery, group: str, instance: str, clock: Clock = Clock()
) -> Sink:
    """The sink for a delivery that `resolve` returned; no two workers may share an `instance`."""
    if delivery == "exactly-once":
        return _ExactlyOnce(settings, group, instance, clock)
    return _AtLeastOnce(settings)


class Sink(ABC):
    """Where results go.

    `atomic`: readers of committed records see all records of a batch and its offsets, or none.
    """

    atomic: ClassVar[bool]

    def __init__(self, settings: KafkaSettings, producer: Producer | None = None) -> None:
        self._publisher = Publisher(settings, producer)

    def check(self, record: OutgoingRecord) -> None:
        """Raise RecordTooLarge or TopicMissing if `record` cannot be published at all."""
        self._publisher.check(record)

    @abstractmethod
    def publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        """Return when the broker has acknowledged all of `records`.

        An atomic sink has also committed them by then, and the group's `offsets`, if it has a
        `group`; others commit no offsets.

        Raises:
            RecordTooLarge: a topic does not accept one of the records; open another sink.
            BrokerError: it is unknown what is visible; open another sink before the next try.
            GroupMovedOn: no record is visible; the group has a new generation.
            NameTaken: no record is visible; another program has our name now.
        """

    def close(self) -> None:
        self._publisher.close()


class _AtLeastOnce(Sink):
    atomic = False

    def publish(
        self, records: Sequence[OutgoingRecord], _offsets: Offsets, _group: GroupMetadata | None
    ) -> None:
        for record in records:
            self._publisher.send(record)
        # The caller commits the offsets next: a result that gets lost after that is lost for good.
        self._publisher.flush()


class _ExactlyOnce(Sink):
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
        super().__init__(settings, self._producer)
        self._caller = TaskThread("transaction")

    def publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        began = self._clock.now()
        try:
            self._producer.begin()
            for record in records:
                self._publisher.send(record)
            # Before the offsets: a refused result raises here, and its record is not committed.
            self._publisher.flush(self._timeout_s)
            if offsets and group is not None:
                self._in_time("send_offsets", partial(self._producer.send_offsets, offsets, group))
            self._in_time("commit", self._producer.commit)
        except GroupMovedOn:
            # The same producer publishes the batch again, in the new generation.
            self._in_time("abort", self._producer.abort)
            raise
        except (MessageTooLarge, TopicMissing, NotAllowed, BadSettings):
            with contextlib.suppress(BrokerError):  # the earlier error is the one to report
                self._in_time("abort", self._producer.abort)  # readers wait for an open transaction
            raise
        except Fenced as error:
            # Later, the broker may have fenced it for its slowness.
            if self._clock.now() - began < _CERTAIN * self._timeout_s:
                raise NameTaken(
                    f"another program has started transactions as {self._name}"
                ) from error
            raise

    def close(self) -> None:
        self._caller.close()
        super().close()

    def _in_time(self, name: str, call: Callable[[], None]) -> None:
        """Call the client in another thread, because it waits for the broker without a timeout."""
        try:
            self._caller.submit(call).result(self._timeout_s)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"the broker did not answer {name} within {self._timeout_s:g} s"
            ) from error
