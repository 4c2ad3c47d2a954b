"""What tests put into topics and find there, and workers that run beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from stream_icd.kafka.messages.claims import ClaimCheck, ClaimSettings
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from tests.testbed.brokers import Broker

ENDS_WITHIN_S = 60.0


def publish(broker: Broker, records: Iterable[OutgoingRecord]) -> None:
    """Return when the broker has all of them."""
    with Publisher(broker.settings()) as publisher:
        for record in records:
            publisher.send(record)


def as_claim(record: OutgoingRecord, claims: ClaimSettings) -> OutgoingRecord:
    """The record with its value in the claim store, whatever its size."""
    return ClaimCheck(KafkaSettings(), claims).claimed(record)


def held(broker: Broker, topic: str) -> list[Record]:
    """Everything that readers of committed records see."""
    with open_reader(broker.settings(), topic, until="settled") as records:
        return list(records)


def as_read(sent: Iterable[OutgoingRecord], partition: int = 0, first: int = 0) -> list[Record]:
    """Records as a consumer reads them, from this offset of a partition on."""
    return [
        Record(record.topic, partition, offset, 0, record.key, record.value, record.headers)
        for offset, record in enumerate(sent, first)
    ]


@contextmanager
def beside(
    work: Callable[[threading.Event], object], stop: threading.Event | None = None
) -> Iterator[list[BaseException]]:
    """Run `work(stop)` in a thread during the block, and stop it at the end; yields its errors."""
    stop, errors = stop or threading.Event(), list[BaseException]()

    def attempt() -> None:
        try:
            work(stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    try:
        yield errors
    finally:
        stop.set()
        thread.join(ENDS_WITHIN_S)
        assert not thread.is_alive()
