"""Time, and the wish to stop: arguments, so that tests need not wait; and how long polls wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


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
IDLE_AFTER_S = 5.0


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
        return IDLE_S if self._clock() - self._since > IDLE_AFTER_S else BUSY_S

    def saw_work(self) -> None:
        """Note that records came, or that something else needs attention."""
        self._since = self._clock()
