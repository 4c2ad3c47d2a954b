"""How results and offsets become visible: in one transaction, or one after the other."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Protocol

from stream_icd.errors import (
    BrokerError,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    NotAllowed,
    NotSupported,
    TopicMissing,
)
from stream_icd.kafka.clock import Clock
from stream_icd.kafka.connect import connect, recognise
from stream_icd.kafka.group.worker import Worker
from stream_icd.kafka.port.broker import Fenced, GroupMetadata, GroupMovedOn
from stream_icd.kafka.port.topic import Offsets
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings

log = logging.getLogger(__name__)

# A fraction of the transaction timeout: a producer fenced before that did not take too long.
# The margin is for the broker, which measures with its own clock.
CERTAIN = 0.9


class Delivery(Enum):
    """The guarantee for results when a worker or the broker fails.

    AT_LEAST_ONCE: every result arrives; after a failure some arrive twice.
    EXACTLY_ONCE: readers of committed records see every result once.
    AUTO: exactly once where the broker can do it, else at least once.
    """

    AUTO = "auto"
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


def resolve(settings: KafkaSettings, wanted: Delivery) -> Delivery:
    """The guarantee to use on this broker; logs a warning if AUTO becomes at-least-once.

    Raises:
        NotSupported: exactly-once was requested, and the broker shows aborted records.
        BrokerUnavailable: no broker answers.
    """
    if wanted is Delivery.AT_LEAST_ONCE:
        return wanted
    found = recognise(settings)
    broker = f"the broker at {settings.bootstrap_servers} ({found.software})"
    if found.hides_aborted:
        return Delivery.EXACTLY_ONCE
    if wanted is Delivery.AUTO:
        log.warning(
            "delivery is at-least-once: %s is not known to hide aborted records from readers",
            broker,
        )
        return Delivery.AT_LEAST_ONCE
    if found.hides_aborted is None:
        log.warning("exactly-once only if %s hides aborted records from readers", broker)
        return wanted
    raise NotSupported(
        f"exactly-once is not possible: {broker} does not hide aborted records from readers. Use "
        "at-least-once, or Apache Kafka"
    )


class Sink(Protocol):
    """Publishes the results of one batch; may be closed and opened again after a failure.

    `atomic`: readers of committed records see all records of a batch, or none.
    """

    atomic: bool

    def check(self, record: OutgoingRecord) -> None:
        """Raise RecordTooLarge or TopicMissing if `record` cannot be published at all."""

    def publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        """Return when `records` are safe at the broker; without a `group`, commit no offsets.

        Raises:
            GroupMovedOn: no record is visible; the group has a new generation.
            NameTaken: no record is visible; another program has our name now.
            RecordTooLarge: a topic does not accept one of the records; open another sink.
            BrokerError: it is unknown what is visible; open another sink before the next try.
        """

    def close(self) -> None: ...


class AtLeastOnce:
    """Publish, wait for every acknowledgement; the consumer commits its offsets afterwards."""

    atomic = False

    def __init__(self, settings: KafkaSettings) -> None:
        self._publisher = Publisher(settings)

    def check(self, record: OutgoingRecord) -> None:
        self._publisher.check(record)

    def publish(
        self,
        records: Sequence[OutgoingRecord],
        offsets: Offsets,  # noqa: ARG002
        group: GroupMetadata | None,  # noqa: ARG002
    ) -> None:
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
        try:
            self._producer.begin_transactions()
        except BaseException:
            self.close()
            raise

    def check(self, record: OutgoingRecord) -> None:
        self._publisher.check(record)

    def publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        began = self._clock.now()
        try:
            self._publish(records, offsets, group)
        except GroupMovedOn:
            self._abort()
            raise
        except (MessageTooLarge, TopicMissing, NotAllowed):
            with contextlib.suppress(BrokerError):  # the earlier error is the one to report
                self._abort()  # readers wait for an open transaction
            raise
        except DeliveryFailed as error:
            if is_fenced(error) and self._clock.now() - began < CERTAIN * self._timeout_s:
                raise NameTaken(
                    f"another program has started transactions as {self._name}"
                ) from error
            raise

    def close(self) -> None:
        self._caller.close()
        self._publisher.close()

    def _publish(
        self, records: Sequence[OutgoingRecord], offsets: Offsets, group: GroupMetadata | None
    ) -> None:
        self._producer.begin()
        for record in records:
            self._publisher.send(record)
        self._publisher.flush(self._timeout_s)
        if offsets and group is not None:
            self._in_time("send_offsets", partial(self._producer.send_offsets, offsets, group))
        self._in_time("commit", self._producer.commit)

    def _abort(self) -> None:
        self._in_time("abort", self._producer.abort)

    def _in_time(self, name: str, call: Callable[[], None]) -> None:
        """Call the client in another thread, because it waits for the broker without a timeout."""
        try:
            self._caller.submit(call).result(self._timeout_s)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"the broker did not answer {name} within {self._timeout_s:g} s"
            ) from error


def is_fenced(error: BaseException) -> bool:
    return isinstance(error, Fenced) or isinstance(error.__cause__, Fenced)


def open_sink(
    settings: KafkaSettings, delivery: Delivery, group: str, instance: str, clock: Clock = Clock()
) -> Sink:
    """The sink for a delivery that `resolve` returned; no two workers may share an `instance`."""
    if delivery is Delivery.EXACTLY_ONCE:
        return ExactlyOnce(settings, group, instance, clock)
    return AtLeastOnce(settings)
