"""How code waits: by a clock, until asked to stop, at the pace of polls, in a thread of its own.

While the broker is away, programs wait with growing pauses, and a line in the log once a minute.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from stream_icd.core.errors import BrokerUnavailable, DeliveryFailed, NameTaken

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


class Stop(Protocol):
    """Anything that can be asked whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Clock:
    """The machine's clock by default; its `now` never goes back."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


BUSY_S = 0.2
IDLE_S = 2.0
_IDLE_AFTER_S = 5.0
ASK_TIMEOUT_S = 2 * IDLE_S
"""A broker answers after the fetch in progress, which may wait for records."""


class Pace:
    """A poll waits briefly after records came, and longer when none came for five seconds.

    New records end the wait at once (at the embedded broker, within a second). A request to stop
    waits for it, and so does a member whose partitions change.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()

    @property
    def wait_s(self) -> float:
        return IDLE_S if self._clock() - self._since > _IDLE_AFTER_S else BUSY_S

    def saw_work(self) -> None:
        """Note that records came, or that something else needs attention."""
        self._since = self._clock()


_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 15.0
_SAY_EVERY_S = 60.0


@dataclass(slots=True)
class Outage:
    """The time for which something does not answer. It logs once a minute, and when it is over.

    Attributes:
        give_up_after_s: after this long, `failed` raises its error; None: never.
        of: what does not answer, for the log.
    """

    give_up_after_s: float | None = None
    clock: Clock = field(default_factory=Clock)
    of: str = "the broker"
    _since: float | None = None
    _say_at: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long it has lasted; None: all is well."""
        return None if self._since is None else self.clock.now() - self._since

    def failed(self, error: Exception) -> float:
        """Note that there was no answer. Return how long to pause, in seconds: half of what the
        outage has lasted, within limits."""
        now = self.clock.now()
        if self._since is None:
            self._since = self._say_at = now
        lasted_s = now - self._since
        if self.give_up_after_s is not None and lasted_s >= self.give_up_after_s:
            raise error
        if now >= self._say_at:
            self._say_at = now + _SAY_EVERY_S
            so_far = f" (for {lasted_s:.0f} s now)" if lasted_s >= 1 else ""
            _log.warning("waiting for %s%s: %s", self.of, so_far, error)
        return min(max(_SHORTEST_PAUSE_S, lasted_s / 2), _LONGEST_PAUSE_S)

    def answered(self, silence_s: float = 0.0) -> None:
        """Note an answer that came so many seconds ago; it ends an outage that began earlier."""
        if self._since is not None and self.clock.now() - silence_s >= self._since:
            _log.info("%s answers again, after %.0f s", self.of, self.seconds)
            self._since = None


_AWAY = (BrokerUnavailable, DeliveryFailed)  # what is raised while the broker is


def insist(
    work: Callable[[], _Result],
    outage: Outage,
    stop: threading.Event,
    away: tuple[type[Exception], ...] = _AWAY,
) -> _Result:
    """Return the result of `work`; repeat it while it raises that something is `away`.

    Raises the error of `work` once `stop` is set or the outage has lasted too long, and at once if
    waiting does not help.
    """
    while True:
        try:
            result = work()
        except NameTaken:  # a DeliveryFailed, too, but waiting gives nobody the name back
            raise
        except away as error:
            if stop.is_set():  # after the try: who is asked to stop still delivers if it can
                raise
            stop.wait(outage.failed(error))
        else:
            outage.answered()
            return result


class TaskThread:
    """Runs what is submitted, in order, in one daemon thread.

    Unlike an executor's thread, it does not keep the process alive: work that does not end in time
    dies with the process.
    """

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        self._tasks.put(None)

    def submit(self, work: Callable[[], _Result]) -> Future[_Result]:
        future: Future[_Result] = Future()

        def task() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        self._tasks.put(task)
        return future

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


@contextmanager
def in_background(
    work: Callable[[], object], name: str, stop: threading.Event, end_s: float | None = None
) -> Iterator[threading.Thread]:
    """Run `work` in a daemon thread; when the block ends, set `stop`, and wait for the thread: for
    `end_s` at most, then it dies with the process."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()  # or the thread would not end
        thread.join(end_s)
