"""A worker that copies one topic to another, in a thread."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from kafka import KafkaProducer
from kafka import TopicPartition as ClientPartition

from stream_icd.kafka.client.connections import open_admin, open_producer
from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery
from stream_icd.kafka.delivery.handler import BatchDone, Watcher
from stream_icd.kafka.port import Partitions, TopicPartition
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import Until, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Clock
from tests.testbed.brokers import Broker, wait_until
from tests.testbed.handlers import Calls

MakeTopic = Callable[..., str]
_Error = TypeVar("_Error", bound=BaseException)


def publish(settings: KafkaSettings, topic: str, count: int, keys: int = 3, start: int = 0) -> None:
    """`count` records, numbered from `start`, their keys taken in turn."""
    with Publisher(settings) as publisher:
        for number in range(start, start + count):
            key = b"key-%d" % (number % keys)
            publisher.send(OutgoingRecord(topic, b"%d" % number, key))


def values(settings: KafkaSettings, topic: str, until: Until = "settled") -> list[int]:
    """The numbers that a reader of committed records sees in `topic`.

    "settled": Apache Kafka says that a transaction is committed a moment before readers see it.
    """
    with open_reader(settings, topic, until=until) as records:
        return [int(record.value or b"-1") for record in records]


def remove_before(kafka: Broker, topic: str, offset: int) -> None:
    """Do at once what retention does in time."""
    with open_admin(kafka.settings()) as admin:
        admin.delete_records({ClientPartition(topic, 0): offset})


def begun(settings: KafkaSettings, name: str, topic: str, value: bytes) -> KafkaProducer:
    """A producer with an open transaction, which holds this record."""
    producer = open_producer(settings, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value).get(60)
    return producer


class Ours:
    """Notes which partitions a member has."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def assigned(self, partitions: Partitions) -> None:
        self.partitions |= set(partitions)

    def revoked(self, partitions: Partitions) -> None:
        self.partitions -= set(partitions)


@dataclass
class Echo:
    """`run_consumer` in a thread, with what it did written down.

    Each batch is in hand for so many `seconds`, and until `meanwhile` returns.
    """

    settings: KafkaSettings
    source: str
    target: str
    group: str
    delivery: Delivery = "at-least-once"
    seconds: float = 0.0
    max_records: int = 4
    watcher: Watcher = field(default_factory=Watcher)
    ahead: bool = False
    meanwhile: Callable[[], object] = lambda: None
    give_up_after_s: float | None = None
    clock: Clock = field(default_factory=Clock)
    handled: list[Record] = field(default_factory=list)
    done: list[BatchDone] = field(default_factory=list)
    error: BaseException | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join(60.0)

    def join(self, timeout_s: float) -> None:
        """Stop it, and fail when it has not ended within `timeout_s` seconds or has raised."""
        self.stop.set()
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), f"still running {timeout_s} s after it was stopped"
        if self.error is not None:
            raise self.error

    def failure(self, kind: type[_Error], says: str = "") -> _Error:
        """Wait until such an error has ended it, and return that; nothing raises it any more."""
        wait_until(lambda: self.ended)
        error, self.error = self.error, None
        assert isinstance(error, kind), error
        assert re.search(says, str(error))
        return error

    @property
    def committed(self) -> int:
        """How many records are in committed batches."""
        return sum(len(batch.records) for batch in self.done)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            run_consumer(
                self.settings,
                self.source,
                self.group,
                Calls(self._handle, done=self.done.append, ahead=self.ahead),
                self.stop,
                delivery=self.delivery,
                max_records=self.max_records,
                watchers=[self.watcher],
                give_up_after_s=self.give_up_after_s,
                clock=self.clock,
            )
        except BaseException as error:
            self.error = error

    def _handle(self, records: Sequence[Record]) -> Iterable[OutgoingRecord]:
        self.handled.extend(records)
        time.sleep(self.seconds)
        self.meanwhile()
        return [OutgoingRecord(self.target, record.value, record.key) for record in records]


@dataclass(frozen=True)
class Pipe:
    """A source, a target, and a group of their own."""

    broker: Broker
    source: str
    target: str
    group: str

    def publish(self, count: int, keys: int = 3, start: int = 0) -> None:
        publish(self.broker.settings(), self.source, count, keys, start)

    def publish_until(self, condition: Callable[[], object], start: int) -> int:
        """A record of each key now and then, numbered from `start`, until `condition`; the next
        number.

        So that who joins a group finds work, however late it comes and however fast the others are.
        """
        numbers = itertools.count(start, 3)

        def reached() -> object:
            self.publish(3, start=next(numbers))
            return condition()

        wait_until(reached, every_s=0.2)
        return next(numbers)

    def copied(self, until: Until = "settled") -> list[int]:
        """The numbers that a reader of committed records sees in the target."""
        return values(self.broker.settings(), self.target, until)

    def echo(
        self,
        delivery: Delivery = "at-least-once",
        settings: KafkaSettings | None = None,
        **how: Any,
    ) -> Echo:
        settings = self.broker.steady() if settings is None else settings
        return Echo(settings, self.source, self.target, self.group, delivery, **how)
