"""Handlers and watchers of a consumer made of functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from stream_icd.kafka.delivery.handler import BatchDone, Handler, Watcher
from stream_icd.kafka.record import OutgoingRecord, Record


class Calls(Handler):
    def __init__(
        self,
        handle: Callable[[Sequence[Record]], Iterable[OutgoingRecord]],
        *,
        assigned: Callable[[Collection[int]], object] = lambda _: None,
        done: Callable[[BatchDone], object] = lambda _: None,
        ahead: bool = False,
        at_once: int | None = None,
        ready: Callable[[], object] = lambda: None,
    ) -> None:
        self._handle, self._assigned, self._done, self.ahead = handle, assigned, done, ahead
        self._ready, self.at_once = ready, at_once

    def open(self) -> None:
        self._ready()

    def handle(self, records: Sequence[Record], /) -> Iterable[OutgoingRecord]:
        return self._handle(records)

    def assigned(self, partitions: Collection[int]) -> None:
        self._assigned(partitions)

    def done(self, batch: BatchDone) -> None:
        self._done(batch)


class WhenDone(Watcher):
    def __init__(self, done: Callable[[BatchDone], object]) -> None:
        self._done = done

    def done(self, batch: BatchDone) -> None:
        self._done(batch)


class StopAfter(Watcher):
    """Sets `stop` once that many records are committed."""

    def __init__(self, count: int) -> None:
        self._left, self.stop = count, threading.Event()

    def done(self, batch: BatchDone) -> None:
        self._left -= len(batch.records)
        if self._left <= 0:
            self.stop.set()
