"""Change the model of a detector between two batches, without a pause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from stream_icd.execution.processes import InHand, Processes
from stream_icd.execution.work import First
from stream_icd.kafka.record import Record
from stream_icd.kafka.waiting import Stop
from stream_icd.messages.records import Outcome, Refused
from stream_icd.registry.model import VersionedModel

Pool = Processes[Record, Outcome]
OpenPool = Callable[[VersionedModel, str], AbstractContextManager[Pool]]
"""Opens worker processes with a model; the second argument is where they find it."""

IDLE_AFTER_S = 5.0
"""A batch that was begun this long ago and is not being worked on has no records of ours."""


@dataclass(frozen=True, slots=True)
class _AtWork:
    """A model, the processes that opened it, and what ends them."""

    model: VersionedModel
    pool: Pool
    close: Callable[[], object]


class ModelSwap:
    """The current model and its worker processes. Another model can take their place.

    `prepare` opens new processes with another model while the current ones work, and returns when
    the new ones are warm. The next batch uses them; a batch has one model from start to end. The
    old processes then end. Between `prepare` and the next batch there are twice as many processes.

    `model` is the detector's model handle, and the object itself is its engine.

    Args:
        on_swap: called with the old and the new model at each change.
    """

    def __init__(
        self,
        open_pool: OpenPool,
        on_swap: Callable[[VersionedModel, VersionedModel], None] = lambda _old, _new: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_pool = open_pool
        self._on_swap = on_swap
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._current: _AtWork | None = None
        self._next: _AtWork | None = None
        self._begun: float | None = None
        self._working = False
        self._closing: list[threading.Thread] = []

    def start(self, model: VersionedModel, place: str, stop: Stop) -> None:
        """Open processes with the first model, and wait until they are warm, or for `stop`."""
        self._current = self._opened(model, place, stop)

    def begin(self, model: VersionedModel, place: str) -> None:
        """Open processes with the first model; `wait_until_warm` waits for them."""
        self._current = self._opening(model, place)

    def wait_until_warm(self, stop: Stop) -> None:
        """Return when the processes are warm, or `stop` is set.

        Raises:
            ModelError, WorkersLost, BadInput: they cannot open the model.
        """
        self._at_work().pool.wait_until_warm(stop)

    def prepare(self, model: VersionedModel, place: str, stop: Stop) -> None:
        """Open processes with another model; the next batch uses them.

        A model that was prepared before and has not been used is dropped.

        Args:
            place: where the processes find the model: a path or a URI.
            stop: if it is set meanwhile, nothing changes.

        Raises:
            ModelError, WorkersLost, BadInput: the processes cannot open it; nothing changes.
        """
        ready = self._opened(model, place, stop)
        if stop.is_set():
            ready.close()
            return
        self._set_next(ready)
        self._swap_if_idle()

    def keep(self) -> None:
        """Drop a model that was prepared and has not been used."""
        self._set_next(None)

    def _set_next(self, ready: _AtWork | None) -> None:
        with self._lock:
            unused, self._next = self._next, ready
        self._end(unused)

    @property
    def current(self) -> str:
        with self._lock:
            return self._at_work().model.version

    @property
    def newest(self) -> str:
        """Version of the prepared model, else of the current one."""
        with self._lock:
            return (self._next or self._at_work()).model.version

    def model(self) -> VersionedModel:
        """Begin a batch: return its model, the newest one that is ready."""
        with self._lock:
            self._begun = self._monotonic()
            old = self._take_next()
            now = self._at_work().model
        self._end(old)
        return now

    def __call__(
        self, records: Iterable[Record], first: First = First(), /
    ) -> Iterator[tuple[Record, Outcome | Refused]]:
        """Detect the records of the batch that was begun, with its model."""
        with self._lock:
            self._working = True
            pool = self._at_work().pool
        try:
            yield from pool(records, first)
        finally:
            with self._lock:
                self._working, self._begun = False, None
            self._swap_if_idle()

    @property
    def alive(self) -> int:
        return sum(pool.alive for pool in self._pools())

    @property
    def resident_bytes(self) -> int:
        return sum(pool.resident_bytes for pool in self._pools())

    @property
    def in_hand(self) -> list[InHand]:
        """The snapshots in progress; one model works at a time."""
        return [job for pool in self._pools() for job in pool.in_hand]

    def close(self) -> None:
        with self._lock:
            ended = self._next, self._current
            self._next = self._current = None
        for at_work in filter(None, ended):
            at_work.close()
        for thread in self._closing:
            thread.join()

    def _opening(self, model: VersionedModel, place: str) -> _AtWork:
        opening = ExitStack()
        return _AtWork(model, opening.enter_context(self._open_pool(model, place)), opening.close)

    def _opened(self, model: VersionedModel, place: str, stop: Stop) -> _AtWork:
        opened = self._opening(model, place)
        try:
            opened.pool.wait_until_warm(stop)
        except BaseException:
            opened.close()
            raise
        return opened

    def _swap_if_idle(self) -> None:
        with self._lock:
            began = self._begun is not None and self._monotonic() - self._begun < IDLE_AFTER_S
            old = None if self._working or began else self._take_next()
        self._end(old)

    def _take_next(self) -> _AtWork | None:
        """Make the prepared model the current one; return the old one, if there was a change."""
        if self._next is None:
            return None
        old, self._current, self._next = self._at_work(), self._next, None
        self._on_swap(old.model, self._current.model)
        return old

    def _at_work(self) -> _AtWork:
        assert self._current is not None, "call start first"
        return self._current

    def _pools(self) -> list[Pool]:
        with self._lock:
            return [at_work.pool for at_work in filter(None, (self._current, self._next))]

    def _end(self, old: _AtWork | None) -> None:
        """End processes that no batch needs, without waiting for it."""
        if old is not None:
            thread = threading.Thread(target=old.close, name="old-model", daemon=True)
            thread.start()
            self._closing = [*filter(threading.Thread.is_alive, self._closing), thread]
