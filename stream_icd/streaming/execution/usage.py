"""Time and memory that a process uses: what a budget is compared with.

Imports little: a program starts the server of worker processes before it imports the rest.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used since the meter was reset.

    Processor time is that of all its threads; memory is the growth of its resident memory.
    """

    clock_seconds: float
    cpu_seconds: float
    memory_bytes: int


class Meter:
    """Measures the resources used by process `pid` since the meter was created or last reset."""

    def __init__(self, pid: int) -> None:
        self._process: psutil.Process | None = None
        with suppress(psutil.NoSuchProcess):  # it has ended
            self._process = psutil.Process(pid)
        self.reset()

    def reset(self) -> None:
        self._since = time.monotonic()
        self._cpu, self._memory = self._now()

    def read(self) -> Usage:
        """Return the resources used; for a process that has ended, the wall-clock time only."""
        cpu, memory = self._now()
        return Usage(self.clock_seconds, max(0.0, cpu - self._cpu), max(0, memory - self._memory))

    @property
    def clock_seconds(self) -> float:
        return time.monotonic() - self._since

    @property
    def is_running(self) -> bool:
        with suppress(psutil.NoSuchProcess):
            it = self._process
            return it is not None and it.is_running() and it.status() != psutil.STATUS_ZOMBIE
        return False

    @property
    def resident_bytes(self) -> int:
        return self._now()[1]

    def kill(self) -> None:
        """Kill the process, and no other that has got its id since it ended."""
        if self._process is not None:
            with suppress(psutil.NoSuchProcess):
                self._process.kill()

    def _now(self) -> tuple[float, int]:
        if self._process is None:
            return 0.0, 0
        try:
            times, memory = self._process.cpu_times(), self._process.memory_info()
        except psutil.Error:  # it has ended
            return 0.0, 0
        return times.user + times.system, memory.rss
