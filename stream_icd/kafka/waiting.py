"""How code waits: by a clock, until asked to stop, at the pace of polls, in a thread of its own.

The clock and the wish to stop are arguments, so that tests need not wait.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar, TypeVarTuple


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


_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


class Worker:
    """Runs what is submitted, in order, in one daemon thread.

    Unlike an executor's thread, it does not keep the process alive: work that does not end in time
    dies with the process.
    """

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        self._tasks.put(None)

    def submit(
        self, function: Callable[[*_Arguments], _Result], *arguments: *_Arguments
    ) -> Future[_Result]:
        future: Future[_Result] = Future()

        def task() -> None:
            try:
                future.set_result(function(*arguments))
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
        stop.set()
        thread.join(end_s)
