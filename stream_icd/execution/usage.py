"""Resources that a process uses, measured from outside, and limits on them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

import psutil

from stream_icd.errors import BadSettings, OverBudget

CLOCK_FACTOR = 10
"""Wall-clock limit, as a multiple of the processor time: a job may wait on a busy machine."""


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


@dataclass(frozen=True, slots=True)
class Allowance:
    """Limits for one job.

    Attributes:
        seconds: processor time of all threads.
        memory_bytes: growth of the process's resident memory.

    Raises:
        BadSettings: a limit is not positive.
    """

    seconds: float
    memory_bytes: int

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.memory_bytes > 0):
            raise BadSettings(f"{self}: both limits must be above 0")

    @property
    def clock_seconds(self) -> float:
        return CLOCK_FACTOR * self.seconds

    def excess(self, used: Usage) -> tuple[float, float, str] | None:
        """Return the first limit that is exceeded: what was taken, the limit, the unit."""
        for taken, limit, unit in (
            (used.cpu_seconds, self.seconds, "s of processor time"),
            (used.clock_seconds, self.clock_seconds, "s by the clock"),
            (used.memory_bytes / 1e6, self.memory_bytes / 1e6, "MB of memory"),
        ):
            if taken > limit:
                return taken, limit, unit
        return None

    def check(self, used: Usage) -> None:
        """Raise OverBudget if a limit is exceeded."""
        if (excess := self.excess(used)) is not None:
            _, limit, unit = excess
            raise OverBudget(f"took more than {limit:.4g} {unit}")


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
        clock = time.monotonic() - self._since
        return Usage(clock, max(0.0, cpu - self._cpu), max(0, memory - self._memory))

    def skip_clock(self, seconds: float) -> None:
        """Do not count this much of the wall-clock time."""
        self._since += seconds

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
