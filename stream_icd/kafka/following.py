"""Follow a topic for ever: wait for a broker that restarts, and for a topic that is missing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_icd.errors import OffsetGone, StreamIcdError
from stream_icd.kafka.reader import Start, Until, open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.printable import printable

RETRY_S = 1.0

# The standard library's: without a configuration it writes warnings to standard error, where they
# do not mix with results.
LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Following:
    """Reads one topic in a thread.

    Attributes:
        topic: its name.
        on_record: called with each record, in the order of its partition.
        stop: ends the thread.
        start: position of the first record: see `open_reader`.
        trouble: why nothing is read at the moment; empty while all is well.
        caught_up: set when the records that the topic held at first were read.
    """

    settings: KafkaSettings
    topic: str
    on_record: Callable[[Record], None]
    stop: threading.Event
    start: Start = "beginning"
    trouble: str = ""
    caught_up: threading.Event = field(default_factory=threading.Event)
    _next: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self._read("end")
                self.caught_up.set()
                self._read("forever")
            except OffsetGone as error:  # retention, or a broker that lost its data
                self._complain(error)
                self._next, self.start = {}, "beginning"
            except StreamIcdError as error:
                self._complain(error)
            except Exception as error:
                self._complain(error)
                LOG.exception("topic %s is no longer read", self.topic)
                self.caught_up.set()
                raise
            self.caught_up.set()  # nothing waits for a topic that cannot be read
            self.stop.wait(RETRY_S)

    def _read(self, until: Until) -> None:
        start = {**self._next} if self._next else self.start
        with open_reader(self.settings, self.topic, start, until, stop=self.stop) as records:
            self.trouble = ""
            for record in records:
                self.on_record(record)
                self._next[record.partition] = record.offset + 1

    def _complain(self, error: Exception) -> None:
        if self.trouble != str(error) and not self.stop.is_set():
            LOG.warning("waiting for topic %s: %s", self.topic, printable(str(error)))
        self.trouble = str(error)
