"""Change the model of a detector between two batches, without a pause, as the champion changes."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import structlog

from stream_icd.core.errors import Action, StreamIcdError
from stream_icd.core.store.store import Store
from stream_icd.kafka.messages.records import Outcome, Refused
from stream_icd.kafka.record import Record
from stream_icd.kafka.waiting import Stop
from stream_icd.registry.aliases import Aliases, champion, champions
from stream_icd.registry.model import VersionedModel
from stream_icd.registry.versions import open_version, version_folder
from stream_icd.streaming.execution.processes import InHand, Processes
from stream_icd.streaming.execution.work import First, Relay

Pool = Processes[Record, Outcome]
_OpenPool = Callable[[VersionedModel, str], AbstractContextManager[Pool]]
"""Opens worker processes with a model; the second argument is where they find it."""

_IDLE_AFTER_S = 5.0
"""A batch that was begun this long ago and is not being worked on has no records of ours."""

_TRY_AGAIN_S = 300.0
"""Interval between attempts to load a version that was refused; its files may be repaired."""

_OnRefusal = Callable[[Aliases, Exception], object]
"""Called with a champion that a detector does not use, and why."""


@dataclass(frozen=True, slots=True)
class _AtWork:
    """A model, the processes that opened it, and what ends them."""

    model: VersionedModel
    pool: Pool
    close: Callable[[], object]


@dataclass(slots=True, eq=False)
class ModelSwap:
    """The current model and its worker processes. Another model can take their place.

    `prepare` opens new processes with another model while the current ones work, and returns when
    the new ones are warm. The next batch uses them; a batch has one model from start to end. The
    old processes then end. Between `prepare` and the next batch there are twice as many processes.

    `model` is the detector's model handle, and the object itself is its engine.
    """

    open_pool: _OpenPool
    # Called with the old and the new model at each change.
    on_swap: Callable[[VersionedModel, VersionedModel], None] = lambda _old, _new: None
    monotonic: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _current: _AtWork | None = None
    _next: _AtWork | None = None
    _begun: float | None = None
    _working: bool = False
    _closing: list[threading.Thread] = field(default_factory=list)

    def start_with_champion(
        self, registry: Store, stop: Stop, on_refusal: _OnRefusal
    ) -> _ChampionFollower:
        """Start with the champion, or with the newest one before it that can be used.

        Returns what makes the detector follow later promotions.

        Raises:
            ModelNotFound: nothing was promoted yet.
            ModelError: none of them can be used; the error is that of the champion.
            WorkersLost, StoreUnreachable: see these classes; try again.
        """
        first: Exception | None = None
        for aliases in champions(registry):
            try:
                model = open_version(registry, aliases.champion)
                place = version_folder(registry, model.version).uri
                self._current = self._opened(model, place, stop)
                return _ChampionFollower(registry, self, stop, on_refusal)
            except Exception as error:
                if not _is_the_models_fault(error):
                    raise
                first = first or error
                on_refusal(aliases, error)
        assert first is not None, "there is a champion"
        raise first

    def begin(self, model: VersionedModel, place: str) -> None:
        """Open processes with the first model; `wait_until_warm` waits for them."""
        self._current = self._opening(model, place)

    def wait_until_warm(self, stop: Stop) -> None:
        """Return when the processes are warm, or `stop` is set; raises as `prepare`."""
        self._at_work().pool.wait_until_warm(stop)

    def prepare(self, model: VersionedModel, place: str, stop: Stop) -> None:
        """Open processes with another model; the next batch uses them.

        A model that was prepared before and has not been used is dropped. If `stop` is set
        meanwhile, nothing changes.

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
        self._end(unused)  # without the lock: the next batch never waits for processes to end

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
            self._begun = self.monotonic()
            old = self._take_next()
            now = self._at_work().model
        self._end(old)
        return now

    def __call__(
        self, records: Iterable[Record], first: First = Relay.empty, /
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
            # At the end of the batch, whether or not it failed: a detector without records would
            # keep the processes of both models until the next batch.
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
        # Without the lock, which whoever asks for metrics needs meanwhile.
        for at_work in filter(None, ended):
            at_work.close()
        # Those of former models, too: no process is left when this returns.
        for thread in self._closing:
            thread.join()

    def _opening(self, model: VersionedModel, place: str) -> _AtWork:
        opening = ExitStack()
        return _AtWork(model, opening.enter_context(self.open_pool(model, place)), opening.close)

    def _opened(self, model: VersionedModel, place: str, stop: Stop) -> _AtWork:
        opened = self._opening(model, place)
        try:
            opened.pool.wait_until_warm(stop)
        except BaseException:
            opened.close()  # its other processes may be open
            raise
        return opened

    def _swap_if_idle(self) -> None:
        with self._lock:
            began = self._begun is not None and self.monotonic() - self._begun < _IDLE_AFTER_S
            old = None if self._working or began else self._take_next()
        self._end(old)

    def _take_next(self) -> _AtWork | None:
        """Make the prepared model the current one; return the old one, if there was a change."""
        if self._next is None:
            return None
        old, self._current, self._next = self._at_work(), self._next, None
        self.on_swap(old.model, self._current.model)
        return old

    def _at_work(self) -> _AtWork:
        assert self._current is not None, "call begin first"
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


def _is_the_models_fault(error: Exception) -> bool:
    """Return whether another model may work where this one failed."""
    if isinstance(error, StreamIcdError):
        return error.action is not Action.RETRY
    return not isinstance(error, (OSError, MemoryError))


@dataclass(slots=True, eq=False)
class _ChampionFollower:
    """Makes a detector use the registry's champion, some time after each promotion.

    A champion that cannot be loaded, or that worker processes cannot open, is refused: the
    detector keeps its model, and `on_refusal` is called once. If the registry does not answer, or a
    look fails otherwise, the detector keeps its model, and this is logged once.
    """

    registry: Store
    swap: ModelSwap
    stop: Stop  # also ends a load that is in progress
    on_refusal: _OnRefusal
    _refused: tuple[str, str] = "", ""
    _refused_at: float = -math.inf
    _trouble: str | None = None
    _wanted: str = field(init=False)

    def __post_init__(self) -> None:
        self._wanted = self.swap.current

    @property
    def in_use(self) -> bool:
        """Whether the detector uses the champion, as far as the last look could tell."""
        return self.swap.current == self._wanted

    def look(self) -> None:
        """Compare the champion with the model in use; load it if it is another one."""
        try:
            self._follow(champion(self.registry))
            self._say(None)
        except Exception as error:  # or the thread would end, and follow nothing any more
            self._say(error)

    def run(self, nudged: threading.Event, every_s: float) -> None:
        """Look every `every_s` seconds, and when `nudged` is set, until `stop`."""
        while not self.stop.is_set():
            nudged.wait(every_s)
            nudged.clear()  # before the look: a promotion during it asks for another one
            if not self.stop.is_set():
                self.look()

    def _follow(self, aliases: Aliases) -> None:
        self._wanted = version = aliases.champion  # also if it is refused: it is not in use then
        is_recent = self.swap.monotonic() - self._refused_at < _TRY_AGAIN_S
        if version == self.swap.newest or (self._refused[0] == aliases.id and is_recent):
            return
        if version == self.swap.current:  # rolled back before a batch used the prepared one
            self.swap.keep()
            return
        try:
            model = open_version(self.registry, version)
            place = version_folder(self.registry, version).uri
            self.swap.prepare(model, place, self.stop)
            self._refused = "", ""
        except Exception as error:  # a worker process raises whatever the model makes it raise
            if not _is_the_models_fault(error):
                raise
            before, self._refused = self._refused, (aliases.id, str(error))
            self._refused_at = self.swap.monotonic()
            if self._refused != before:
                self.on_refusal(aliases, error)

    def _say(self, error: Exception | None) -> None:
        """Log a trouble with the registry once, and its end."""
        trouble = None if error is None else f"{type(error).__name__}: {error}"
        if trouble == self._trouble:
            return
        log, self._trouble = structlog.get_logger(), trouble
        if trouble is not None:
            log.warning("cannot follow the champion; the model stays", reason=trouble)
        else:
            log.info("the champion is followed again")
