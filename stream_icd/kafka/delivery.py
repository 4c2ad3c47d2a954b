"""How results and positions become visible: together, or one after the other."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from kafka import OffsetAndMetadata, TopicPartition
from kafka import errors as client

from stream_icd.errors import (
    BrokerError,
    DeliveryFailed,
    MessageTooLarge,
    NameTaken,
    NotAllowed,
    NotSupported,
    TopicMissing,
)
from stream_icd.kafka.capabilities import probe
from stream_icd.kafka.producer import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.translate import lacks_right, translate
from stream_icd.kafka.worker import Worker

log = logging.getLogger(__name__)

# Of a transaction's time: who is fenced within this share of it was not fenced for taking too long.
# The broker counts by a clock of its own.
CERTAIN = 0.9

NextOffsets = dict[TopicPartition, OffsetAndMetadata]

# The group gave our partitions to somebody else, or is about to: nothing of this attempt counts.
GROUP_MOVED_ON = (
    client.CommitFailedError,
    client.IllegalGenerationError,
    client.UnknownMemberIdError,
    client.FencedInstanceIdError,
    client.RebalanceInProgressError,
)


class Delivery(Enum):
    """What is promised about results when a worker or the broker fails.

    AT_LEAST_ONCE: every result arrives; after a failure some arrive twice.
    EXACTLY_ONCE: readers of committed records see every result once.
    AUTO: exactly once where the broker can do it, else at least once.
    """

    AUTO = "auto"
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class GroupMovedOn(Exception):
    """The broker refused the attempt because the group has a new generation."""


def resolve(settings: KafkaSettings, wanted: Delivery) -> Delivery:
    """The delivery that this broker can keep; says so in the log where it is the lesser one.

    Raises:
        NotSupported: exactly-once was asked for, and the broker shows aborted records.
        BrokerUnavailable: nobody answers.
    """
    if wanted is Delivery.AT_LEAST_ONCE:
        return wanted
    found = probe(settings)
    if found.hides_aborted:
        return Delivery.EXACTLY_ONCE
    if wanted is Delivery.EXACTLY_ONCE:
        raise NotSupported(
            f"exactly-once was asked for, and the broker at {settings.bootstrap_servers} "
            f"({found.software}) shows aborted records to its readers: use at-least-once, or "
            "Apache Kafka"
        )
    log.warning(
        "delivery is at-least-once: the broker at %s (%s) shows aborted records",
        settings.bootstrap_servers,
        found.software,
    )
    return Delivery.AT_LEAST_ONCE


class Outlet(Protocol):
    """Publishes the results of one batch; may be closed and opened again after a failure.

    `atomic`: readers of committed records see all records of a batch, or none.
    """

    atomic: bool

    def check(self, record: OutgoingRecord) -> None:
        """See that `record` can be published at all.

        Raises:
            RecordTooLarge, TopicMissing: it cannot.
        """

    def publish(self, records: Sequence[OutgoingRecord], offsets: NextOffsets, group: Any) -> None:
        """Return when `records` are safe at the broker; without `offsets`, `group` is not asked.

        Raises:
            GroupMovedOn: nothing of it is visible; the group has a new generation.
            NameTaken: nothing of it is visible; another program has our name now.
            RecordTooLarge: a topic does not take one of them; open another outlet.
            BrokerError: what is visible is not known; open another outlet before the next try.
        """

    def close(self) -> None: ...


class AtLeastOnce:
    """Publish, wait for every acknowledgement; the consumer commits its offsets afterwards."""

    atomic = False

    def __init__(self, settings: KafkaSettings) -> None:
        self._publisher = Publisher(settings)

    def check(self, record: OutgoingRecord) -> None:
        self._publisher.check(record)

    def publish(self, records: Sequence[OutgoingRecord], offsets: NextOffsets, group: Any) -> None:  # noqa: ARG002
        for record in records:
            self._publisher.send(record)
        self._publisher.flush()

    def close(self) -> None:
        self._publisher.close()


class ExactlyOnce:
    """Results and offsets in one transaction, fenced by the group's generation (KIP-447).

    With an `instance_id` in the settings, a restarted worker ends its former self's open
    transaction at once; without, that waits for the broker's `transaction_timeout_s`.

    A broker fences a producer for two reasons that it does not tell apart: another one has begun
    under the same name, or a transaction of its own took longer than `transaction_timeout_s`.
    Where it took less, it is the former: `NameTaken`.
    """

    atomic = True

    def __init__(self, settings: KafkaSettings, group: str, instance: str) -> None:
        self._timeout_s = settings.transaction_timeout_s  # then the broker has aborted it anyway
        self._name = f"{group}-{instance}"
        self._publisher = Publisher(settings, transactional_id=self._name)
        self._caller = Worker("transaction")
        try:
            self._publisher.client.init_transactions()
        except client.KafkaError as error:
            self.close()
            raise translate(error, f"begin transactions as {self._name}") from error

    def check(self, record: OutgoingRecord) -> None:
        self._publisher.check(record)

    def publish(self, records: Sequence[OutgoingRecord], offsets: NextOffsets, group: Any) -> None:
        began = time.monotonic()
        try:
            self._publish(records, offsets, group)
        except GROUP_MOVED_ON as error:
            self._abort()
            raise GroupMovedOn(str(error)) from error
        except (MessageTooLarge, TopicMissing, NotAllowed):
            with contextlib.suppress(BrokerError):  # what went wrong before is what counts
                self._abort()  # readers would wait for what we leave open
            raise
        except (client.KafkaError, DeliveryFailed) as error:
            if is_fenced(error) and time.monotonic() - began < CERTAIN * self._timeout_s:
                raise NameTaken(
                    f"another program has begun transactions as {self._name}"
                ) from error
            if isinstance(error, DeliveryFailed):
                raise
            raise self._failed(error) from error

    def close(self) -> None:
        self._caller.close()
        self._publisher.close()

    def _publish(self, records: Sequence[OutgoingRecord], offsets: NextOffsets, group: Any) -> None:
        producer = self._publisher.client
        producer.begin_transaction()
        for record in records:
            self._publisher.send(record)
        self._publisher.flush(self._timeout_s)
        if offsets:
            self._in_time(producer.send_offsets_to_transaction, offsets, group)
        self._in_time(producer.commit_transaction)

    def _abort(self) -> None:
        try:
            self._in_time(self._publisher.client.abort_transaction)
        except client.KafkaError as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Exception:
        if lacks_right(error):
            return translate(error, f"publish in a transaction as {self._name}")
        return DeliveryFailed(f"the transaction did not succeed: {error}")

    def _in_time(self, call: Callable[..., None], *arguments: Any) -> None:
        """The client waits without end for the broker's answer; so let another thread wait."""
        try:
            self._caller.submit(call, *arguments).result(self._timeout_s)
        except TimeoutError as error:
            raise DeliveryFailed(
                f"the broker did not answer {call.__name__} within {self._timeout_s:g} s"
            ) from error


def is_fenced(error: BaseException) -> bool:
    """Whether the broker refused because a producer's transactions are no longer its own."""
    fenced = (client.ProducerFencedError, client.InvalidProducerEpochError)
    in_words = client.ProducerFencedError.__name__  # where the client refuses in the broker's place
    return (
        isinstance(error, fenced) or isinstance(error.__cause__, fenced) or in_words in str(error)
    )


def open_outlet(settings: KafkaSettings, delivery: Delivery, group: str, instance: str) -> Outlet:
    """The outlet for a delivery that `resolve` gave; no two workers may share an `instance`."""
    if delivery is Delivery.EXACTLY_ONCE:
        return ExactlyOnce(settings, group, instance)
    return AtLeastOnce(settings)
