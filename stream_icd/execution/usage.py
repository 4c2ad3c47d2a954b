"""What a process uses, seen from outside it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used since a moment.

    Attributes:
        clock_seconds: by the clock.
        cpu_seconds: processor time of all its threads.
        memory_bytes: growth of its resident memory.
    """

    clock_seconds: float
    cpu_seconds: float
    memory_bytes: int


class Meter:
    """Reads what the process `pid` uses, from when the meter was made or last reset."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._since = time.monotonic()
        self._cpu, self._memory = self._now()

    def read(self) -> Usage:
        """What it has used; of a process that has ended, the time by the clock only."""
        cpu, memory = self._now()
        clock = time.monotonic() - self._since
        return Usage(clock, max(0.0, cpu - self._cpu), max(0, memory - self._memory))

    @property
    def resident_bytes(self) -> int:
        """Its resident memory; 0 of a process that has ended."""
        return self._now()[1]

    def _now(self) -> tuple[float, int]:
        try:
            times, memory = self._process.cpu_times(), self._process.memory_info()
        except psutil.Error:  # it has ended
            return 0.0, 0
        return times.user + times.system, memory.rss
