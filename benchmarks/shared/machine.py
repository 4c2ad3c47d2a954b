"""The machine on which figures are taken, and whether other programs used it meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import time

import psutil

from benchmarks.shared.commit import current_commit

TOO_BUSY = "That is too much for figures by the clock (-)."


class Machine:
    """Notes what other programs do while a benchmark runs; made when it begins."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._all, self._own = _all_seconds(), _own_seconds()

    @property
    def others(self) -> float:
        """How many cores other programs have used, in the mean."""
        elsewhere = _all_seconds() - self._all - (_own_seconds() - self._own)
        return max(0.0, elsewhere / (time.monotonic() - self._since))

    def stamp(self) -> str:
        """Return a line that says commit, machine and load."""
        return (
            f"Commit {current_commit()}, {os.cpu_count()} cores of {_processor()}, Python "
            f"{platform.python_version()}; other programs used {self.others:.2f} cores meanwhile."
        )


def _all_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _own_seconds() -> float:
    """Processor time of this process and of all that it has started, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() + ended.ru_utime + ended.ru_stime
    for one in psutil.Process().children(recursive=True):
        try:
            seconds += sum(one.cpu_times()[:4])
        except psutil.Error:  # it has ended just now
            continue
    return seconds


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()
