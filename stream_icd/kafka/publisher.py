"""Publish records, check every acknowledgement, and wait for a broker that is away."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from stream_icd.core.errors import (
    BadSettings,
    BrokerError,
    BrokerUnavailable,
    DeliveryFailed,
    MessageTooLarge,
    NotAllowed,
    RecordTooLarge,
)
from stream_icd.kafka.connect import connect
from stream_icd.kafka.port import (
    DEAD_LETTER_ROOM,
    Fenced,
    Producer,
    TopicPartition,
    is_dead_letter_topic,
)
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import describe_topic
from stream_icd.kafka.waiting import Outage, insist

_BATCH_BYTES = 128  # the header of a batch, which may hold one record


class _Flushed(ABC):
    """A context manager: leaving the block flushes (unless an exception was raised) and closes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Publisher(_Flushed):
    """Sends records in order, checks every acknowledgement, and limits the bytes in flight.

    Safe to use from several threads. `sent` and `acknowledged` count records.

    After a publisher lost a record, every later call raises: open another one, and send again
    what was not flushed.

    Args:
        producer: sends the records, and is closed with the publisher; None: open a new one.

    >>> with Publisher(KafkaSettings()) as publisher:  # doctest: +SKIP
    ...     publisher.send(OutgoingRecord("icd.snapshots.v1", b"...", key=b"as733"))
    ...     publisher.flush()

    Raises:
        BrokerUnavailable: no bootstrap server answers.
    """

    def __init__(self, settings: KafkaSettings, producer: Producer | None = None) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._limits = SizeLimits(settings)
        self._in_flight = Counter[str]()  # records by topic
        self._unacknowledged = dict[int, OutgoingRecord]()  # in order
        self._numbers = itertools.count()
        self._in_flight_bytes = 0
        self._refusals: list[Exception] = []
        self.sent = 0
        self.acknowledged = 0
        self._producer = connect(settings).producer() if producer is None else producer

    def send(self, record: OutgoingRecord) -> None:
        """Queue `record`, and return; wait only while `max_in_flight_bytes` are in flight.

        Raises:
            RecordTooLarge: it is above `max_message_bytes`, or above its topic's limit: nothing was
                sent. Or the broker refused an *earlier* record for its size.
            TopicMissing: its topic does not exist; nothing was sent.
            DeliveryFailed: an *earlier* record was not accepted, or there was no room for this
                one within `delivery_timeout_s`.
        """
        self.check(record)
        number = self._take_room(record)  # before the send, which may acknowledge at once
        try:
            self._producer.send(record, lambda error: self._hear(number, record, error))
        except BaseException as error:
            self._unacknowledged.pop(number)
            self._give_room(record)
            if isinstance(error, BrokerError):  # the client knew of an earlier refusal before us
                self._wait_for(
                    lambda: self._refusals or not self._in_flight.total(),
                    self._settings.delivery_timeout_s,
                )
            raise
        self.sent += 1

    @property
    def unacknowledged(self) -> list[OutgoingRecord]:
        """The records that were sent and not acknowledged, in order; whether they arrived is not
        known."""
        with self._changed:
            return list(self._unacknowledged.values())

    def check(self, record: OutgoingRecord) -> None:
        """Raise RecordTooLarge or TopicMissing if `record` may not be sent; sends nothing."""
        self._limits.check(record)

    def flush(self, timeout_s: float | None = None) -> None:
        """Return when every record sent so far has been acknowledged, and only then.

        Raises:
            DeliveryFailed: the broker did not acknowledge within `timeout_s` (default: a second
                more than `delivery_timeout_s`), or refused a record.
            NotAllowed: it refused a record because we lack the permission to write there.
            BadSettings: the topic takes no such records, as a compacted one takes none without key.
            RecordTooLarge: it refused a record for its size; of several, the largest is named.
        """
        timeout_s = self._settings.delivery_timeout_s + 1 if timeout_s is None else timeout_s
        if not self._wait_for(lambda: not self._in_flight.total(), timeout_s):
            with self._changed:
                waiting = +self._in_flight
            raise DeliveryFailed(
                f"{waiting.total()} of {self.sent} records, for {', '.join(waiting)}, were not "
                f"acknowledged within {timeout_s:g} s by {self._settings.bootstrap_servers}"
                f"{self._why(waiting)}"
            )

    def close(self, timeout_s: float = 2.0) -> None:
        """Stop; records that are not acknowledged yet may or may not have arrived."""
        self._producer.close(timeout_s)

    def _why(self, topics: Iterable[str]) -> str:
        """What a broker says of topics that do not take records; "": nothing."""
        try:
            with connect(self._settings).admin() as admin:
                for topic in topics:
                    existing = admin.describe_topic(topic)
                    for number in range(0 if existing is None else existing.partitions):
                        admin.ends([TopicPartition(topic, number)])
        except BrokerError as error:
            return f": {error}"
        return ""

    def _take_room(self, record: OutgoingRecord) -> int:
        size, limit = record.size, self._settings.max_in_flight_bytes
        with self._changed:
            has_room = self._wait_for(
                lambda: not self._in_flight_bytes or self._in_flight_bytes + size <= limit,
                self._settings.delivery_timeout_s + 1,
            )
            if not has_room:
                raise DeliveryFailed(f"no room for {size} more bytes: {limit} are not acknowledged")
            self._in_flight[record.topic] += 1
            self._in_flight_bytes += size
            number = next(self._numbers)
            self._unacknowledged[number] = record
            return number

    def _give_room(self, record: OutgoingRecord) -> None:
        with self._changed:
            self._in_flight[record.topic] -= 1
            self._in_flight_bytes -= record.size
            self._changed.notify_all()

    def _hear(self, number: int, record: OutgoingRecord, error: Exception | None) -> None:
        with self._changed:
            if error is None:
                self.acknowledged += 1
                self._unacknowledged.pop(number)
            else:
                self._refusals.append(_refusal(record, error))
            self._give_room(record)

    def _wait_for(self, condition: Callable[[], object], timeout_s: float) -> bool:
        """Whether the condition came true in time; raises if a record was refused by then."""
        with self._changed:
            in_time = bool(self._changed.wait_for(condition, timeout_s))
            refusals = list(self._refusals)
        oversized = [refusal for refusal in refusals if isinstance(refusal, RecordTooLarge)]
        if oversized:  # in a transaction, records of other topics fail after it and like it
            of_topic = [refusal for refusal in oversized if refusal.topic == oversized[0].topic]
            raise max(of_topic, key=lambda refusal: refusal.size)
        if len(refusals) > 1 and isinstance(refusals[0], DeliveryFailed):
            more = f"{refusals[0]} (and {len(refusals) - 1} more records)"
            raise type(refusals[0])(more) from refusals[0].__cause__
        if refusals:
            raise refusals[0]
        return in_time


class WaitingPublisher(_Flushed):
    """A `Publisher` that loses nothing while the broker is away: when the broker answers again,
    every record that was not acknowledged is sent again, in order, before later ones.

    A record of which only the acknowledgement was lost arrives twice; readers drop such copies.
    Its methods raise as those of `Publisher`, but `BrokerUnavailable` and `DeliveryFailed` only
    after `stop`, or if the outage lasts too long. Not for several threads.
    """

    def __init__(self, settings: KafkaSettings, outage: Outage, stop: threading.Event) -> None:
        self._settings = settings
        self._outage = outage
        self._stop = stop
        self._again = deque[OutgoingRecord]()  # to be sent before anything else
        self._publisher: Publisher | None = None

    def send(self, record: OutgoingRecord) -> None:
        """Queue a record; wait while the broker is away, and while too much is in flight."""
        self._insist(lambda publisher: publisher.send(record))

    def flush(self) -> None:
        """Return when every record sent so far has been acknowledged."""
        self._insist(Publisher.flush)

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()

    def _insist(self, call: Callable[[Publisher], None]) -> None:
        insist(partial(self._try, call), self._outage, self._stop)

    def _try(self, call: Callable[[Publisher], None]) -> None:
        try:
            call(self._opened())
        except (BrokerUnavailable, DeliveryFailed):
            if (failed := self._publisher) is not None:
                self._publisher = None
                # First closed: what it still acknowledges is not sent again.
                with suppress(BrokerUnavailable):
                    failed.close(0.0)
                # Before what waits there: those records were to follow these.
                self._again.extendleft(reversed(failed.unacknowledged))
            raise

    def _opened(self) -> Publisher:
        if self._publisher is None:
            self._publisher = Publisher(self._settings)
        if self._again:
            while self._again:
                self._publisher.send(self._again[0])
                self._again.popleft()  # not before: a send that fails has not queued it
            self._publisher.flush()
        return self._publisher


def _refusal(record: OutgoingRecord, error: Exception) -> Exception:
    """What the broker's refusal of a record means to the caller of a publisher."""
    if isinstance(error, NotAllowed | BadSettings):
        return error
    size = record.size_as_sent
    refused = f"{size} bytes for {record.topic} with key {record.key!r:.200}: {error}"
    refusal: Exception = (Fenced if isinstance(error, Fenced) else DeliveryFailed)(refused)
    if isinstance(error, MessageTooLarge):
        refusal = RecordTooLarge(
            f"the broker refused {refused}; set STREAM_ICD_MAX_MESSAGE_BYTES below the limit of "
            "its topic (max.message.bytes) and STREAM_ICD_CLAIMS_URI, and what is larger goes to "
            "files there",
            record.topic,
            size,
        )
    refusal.__cause__ = error
    return refusal


@dataclass(slots=True)
class SizeLimits:
    """The maximum size of a record by topic, from our settings and the topic's; asked for once."""

    settings: KafkaSettings
    _limits: dict[str, int] = field(default_factory=dict)

    def of(self, topic: str) -> int:
        """The limit in bytes; raises `TopicMissing`, or `BrokerUnavailable`."""
        if topic not in self._limits:
            self._limits[topic] = self._ask(topic)
        return self._limits[topic]

    def check(self, record: OutgoingRecord, *, is_claim: bool = False) -> None:
        """Raise RecordTooLarge if the record is above its topic's limit."""
        limit = self.of(record.topic)
        if record.size_as_sent <= limit:
            return
        way_out = (
            "its value went to the claim store, so its key and headers are too large: raise the "
            "limit"
            if is_claim
            else "set STREAM_ICD_CLAIMS_URI, and what is larger goes to files there"
        )
        raise RecordTooLarge(
            f"{record.size} bytes for {record.topic} with key {record.key!r:.200} are above the "
            f"limit of {limit} bytes (max_message_bytes, the topic's max.message.bytes, or less "
            f"than what the broker refused); {way_out}",
            record.topic,
            record.size_as_sent,
        )

    def learn(self, refused: RecordTooLarge) -> None:
        """Accept no record that is as large as one that the broker refused.

        The topic's limit may be lower now, so it is requested again; some brokers do not report it.
        """
        self._limits[refused.topic] = min(self._ask(refused.topic), refused.size - 1)

    def _ask(self, topic: str) -> int:
        limit = describe_topic(self.settings, topic).max_message_bytes
        own = self.settings.max_message_bytes
        if is_dead_letter_topic(topic):  # room for any input record and its reason
            own += DEAD_LETTER_ROOM
        return own if limit is None else min(own, limit - _BATCH_BYTES)
