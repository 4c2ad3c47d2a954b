"""Resources that a process uses, measured from outside."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that a process has used since the meter was reset.

    Attributes:
        clock_seconds: wall-clock time.
        cpu_seconds: processor time of all its threads.
        memory_bytes: growth of its resident memory.
    """

    clock_seconds: float
    cpu_seconds: float
    memory_bytes: int


class Meter:
    """Measures the resources used by process `pid` since the meter was created or last reset."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.reset()

    def reset(self) -> None:
        """Start measuring from zero."""
        self._since = time.monotonic()
        self._cpu, self._memory = self._now()

    def read(self) -> Usage:
        """Return the resources used; for a process that has ended, the wall-clock time only."""
        cpu, memory = self._now()
        clock = time.monotonic() - self._since
        return Usage(clock, max(0.0, cpu - self._cpu), max(0, memory - self._memory))

    def skip_clock(self, seconds: float) -> None:
        """Do not count this much of the wall-clock time."""
        self._since += seconds

    @property
    def resident_bytes(self) -> int:
        """Resident memory of the process; 0 if it has ended."""
        return self._now()[1]

    def _now(self) -> tuple[float, int]:
        try:
            times, memory = self._process.cpu_times(), self._process.memory_info()
        except psutil.Error:  # it has ended
            return 0.0, 0
        return times.user + times.system, memory.rss
