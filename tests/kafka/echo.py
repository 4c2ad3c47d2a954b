"""A worker that copies one topic to another: in a thread, or as a process that can be killed."""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

from stream_icd.kafka.consumer import run_consumer
from stream_icd.kafka.delivery.delivery import Delivery
from stream_icd.kafka.delivery.handler import BatchDone, Watcher
from stream_icd.kafka.port import Partitions, TopicPartition
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import Until, open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from tests.testbed.brokers import wait_until
from tests.testbed.faults.crash_points import die_while_publishing
from tests.testbed.handlers import Calls
from tests.testbed.starting import start_forked

Pipe = tuple[str, str, str]
"""A source, a target and a group."""
MakeTopic = Callable[..., str]


def publish(settings: KafkaSettings, topic: str, count: int, keys: int = 3, start: int = 0) -> None:
    """`count` records, numbered from `start`, their keys taken in turn."""
    with Publisher(settings) as publisher:
        for number in range(start, start + count):
            key = b"key-%d" % (number % keys)
            publisher.send(OutgoingRecord(topic, b"%d" % number, key))


def publish_until(
    condition: Callable[[], object], settings: KafkaSettings, topic: str, start: int
) -> int:
    """A record of each key now and then, numbered from `start`, until `condition`; the next number.

    So that who joins a group finds work, however late it comes and however fast the others are.
    """
    numbers = itertools.count(start, 3)

    def reached() -> object:
        publish(settings, topic, 3, start=next(numbers))
        return condition()

    wait_until(reached, every_s=0.2)
    return next(numbers)


def values(settings: KafkaSettings, topic: str, until: Until = "settled") -> list[int]:
    """The numbers that a reader of committed records sees in `topic`.

    "settled": Apache Kafka says that a transaction is committed a moment before readers see it.
    """
    with open_reader(settings, topic, until=until) as records:
        return [int(record.value or b"-1") for record in records]


class Ours:
    """Notes which partitions a member has."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def assigned(self, partitions: Partitions) -> None:
        self.partitions |= set(partitions)

    def revoked(self, partitions: Partitions) -> None:
        self.partitions -= set(partitions)


class Echo:
    """`run_consumer` in a thread, with what it did written down.

    Each batch is in hand for so many `seconds`, and until `meanwhile` returns.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        source: str,
        target: str,
        group: str,
        delivery: Delivery = "at-least-once",
        seconds: float = 0.0,
        max_records: int = 4,
        watcher: Watcher | None = None,
        ahead: bool = False,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self.handled: list[Record] = []
        self.done: list[BatchDone] = []
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self._seconds = seconds
        self._meanwhile = meanwhile
        self._target = target
        handler = Calls(self._handle, done=self.done.append, ahead=ahead)
        self._arguments = (settings, source, group, handler, self.stop)
        self._options = {
            "delivery": delivery,
            "max_records": max_records,
            "watchers": [] if watcher is None else [watcher],
        }
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

    @property
    def committed(self) -> int:
        """How many records are in committed batches."""
        return sum(len(batch.records) for batch in self.done)

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            run_consumer(*self._arguments, **self._options)  # type: ignore[arg-type]
        except BaseException as error:
            self.error = error

    def _handle(self, records: Sequence[Record]) -> Iterable[OutgoingRecord]:
        self.handled.extend(records)
        time.sleep(self._seconds)
        self._meanwhile()
        return echoed(records, self._target)


def killed_before_committing(settings: KafkaSettings, pipe: Pipe) -> int:
    """Run such a worker, at least once, as a process that kills itself there; its exit status."""
    arguments = [settings.bootstrap_servers, *pipe, str(settings.session_timeout_s)]
    with tempfile.NamedTemporaryFile() as log:
        return start_forked(arguments, Path(log.name), module="tests.kafka.echo").wait(60)


def echoed(records: Sequence[Record], target: str) -> list[OutgoingRecord]:
    return [OutgoingRecord(target, record.value, record.key) for record in records]


def main(servers: str, source: str, target: str, group: str, session_s: str) -> None:
    """Copy, and kill -9 ourselves when the first batch is published and not yet committed."""
    die_while_publishing("before commit, at least once")
    settings = KafkaSettings(
        bootstrap_servers=servers, session_timeout_s=float(session_s), heartbeat_interval_s=0.2
    )
    run_consumer(
        settings,
        source,
        group,
        Calls(lambda records: echoed(records, target)),
        threading.Event(),
        delivery="at-least-once",
        max_records=4,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
