"""Reads a topic as a member of a consumer group, one record at a time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from enum import Enum

from stream_icd.kafka.delivery.handler import Handler
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop, in_background


class _Marker(Enum):
    """What is offered to the reader between records."""

    ASSIGNED = "another part begins"
    END = "no record follows"


class _LeftEarly(Exception):
    """The reader stopped while processing a record, which therefore is not committed."""


@contextmanager
def open_group_reader(
    settings: KafkaSettings, topic: str, group: str, stop: Stop
) -> Iterator[Iterator[Iterator[Record]]]:
    """Give an iterator over the group's next records, in parts; raises as `run_consumer`.

    A part ends when partitions are assigned to this member: another one may have read some of their
    records, so nothing that is known from earlier parts may be used for the next one. A record is
    committed when the next one is requested: if its processing failed, it is delivered again.
    """
    reading = _Reading(settings, topic, group, stop)
    end_s = settings.shutdown_timeout_s
    # `reading` closes first: its thread may wait for the reader, and would see no stop.
    with in_background(reading.run, f"{group}-reader", reading.left, end_s), closing(reading):
        yield reading.parts()


class _Reading(Handler):
    def __init__(self, settings: KafkaSettings, topic: str, group: str, stop: Stop) -> None:
        self._settings = settings
        self._topic = topic
        self._group = group
        self._stop = stop
        self._in_hand = self._ended = False
        self.left = threading.Event()
        self._offered: queue.SimpleQueue[Record | BaseException | _Marker] = queue.SimpleQueue()
        self._taken: queue.SimpleQueue[bool] = queue.SimpleQueue()  # False: the reader has left

    def run(self) -> None:
        """Consume records and pass them to the reader; runs in a thread."""
        # Readers without a group do not need this import.
        from stream_icd.kafka.consumer import run_consumer

        outcome: BaseException | _Marker = _Marker.END
        try:
            run_consumer(
                self._settings,
                self._topic,
                self._group,
                self,
                self,
                delivery="at-least-once",
                max_records=1,
            )
        except _LeftEarly:
            pass
        except BaseException as error:
            outcome = error
        self._offered.put(outcome)

    def is_set(self) -> bool:
        """Return whether to stop; not while a delivered record may still be acknowledged."""
        return self.left.is_set() or (self._stop.is_set() and not self._in_hand)

    def parts(self) -> Iterator[Iterator[Record]]:
        """Yield the records of each part; the next part begins when one was read to its end."""
        while not self._ended:
            yield self._records()

    def _records(self) -> Iterator[Record]:
        """Yield records to the reader; requesting the next record acknowledges the previous one."""
        while not isinstance(offered := self._offered.get(), _Marker):
            if isinstance(offered, BaseException):
                raise offered
            yield offered
            # Only here the caller has dealt with it, so that it may be committed.
            self._taken.put(True)
        self._ended = offered is _Marker.END

    def close(self) -> None:
        """Process no record further: the reader leaves."""
        self._taken.put(False)

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: ARG002
        # In the same queue as the records: the part ends exactly between two of them.
        self._offered.put(_Marker.ASSIGNED)

    def handle(self, records: Sequence[Record]) -> Sequence[OutgoingRecord]:
        for record in records:
            # Before the record is offered: a stop that follows at once must wait for its answer.
            self._in_hand = True
            self._offered.put(record)
            if not self._taken.get():
                raise _LeftEarly
            self._in_hand = False
        return ()
