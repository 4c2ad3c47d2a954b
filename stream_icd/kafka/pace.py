"""How long a poll may wait for records."""

from __future__ import annotations

from collections.abc import Callable

BUSY_S = 0.2
IDLE_S = 2.0
IDLE_AFTER_S = 5.0


class Pace:
    """A poll waits briefly after records came, and longer when none came for five seconds.

    New records end the wait at once (at the embedded broker, within a second). Whoever asks to stop
    waits for it, and so does a member whose partitions change. Each wait costs about a millisecond
    of CPU time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock()

    @property
    def wait_s(self) -> float:
        """How long the next poll may wait."""
        return IDLE_S if self._clock() - self._since > IDLE_AFTER_S else BUSY_S

    def saw_work(self) -> None:
        """Note that records came, or that something else needs attention."""
        self._since = self._clock()
