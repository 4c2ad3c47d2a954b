"""Publish, and wait for a broker that is away."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Self

from stream_icd.core.errors import BrokerUnavailable, DeliveryFailed
from stream_icd.kafka.outage import Outage, insist
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.record import OutgoingRecord
from stream_icd.kafka.settings import KafkaSettings


class WaitingPublisher:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            if self._publisher is not None:
                self._publisher.close()

    def send(self, record: OutgoingRecord) -> None:
        """Queue a record; wait while the broker is away, and while too much is in flight."""
        self._insist(lambda publisher: publisher.send(record))

    def flush(self) -> None:
        """Return when every record sent so far has been acknowledged."""
        self._insist(Publisher.flush)

    def _insist(self, call: Callable[[Publisher], None]) -> None:
        insist(partial(self._try, call), self._outage, self._stop)

    def _try(self, call: Callable[[Publisher], None]) -> None:
        try:
            call(self._opened())
        except (BrokerUnavailable, DeliveryFailed):
            if (failed := self._publisher) is not None:
                self._publisher = None
                with suppress(BrokerUnavailable):
                    failed.close(0.0)
                self._again.extendleft(reversed(failed.unacknowledged))
            raise

    def _opened(self) -> Publisher:
        if self._publisher is None:
            self._publisher = Publisher(self._settings)
        if self._again:
            while self._again:
                self._publisher.send(self._again[0])
                self._again.popleft()
            self._publisher.flush()
        return self._publisher
