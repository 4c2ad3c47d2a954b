"""The machine on which figures are taken, and whether other programs used it meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import threading
import time

import psutil

from benchmarks.shared.commit import current_commit

BY_CLOCK, BY_CPU = 0.2, 1.0
"""Cores that other programs may use: figures by the clock stand hardly any, since a detector and
its broker use both of two; processor time grows by a tenth or two beside a program that keeps a
core busy, through the caches that they share."""
PR_SET_CHILD_SUBREAPER = 36
"""See prctl(2)."""


class Machine:
    """Notes what other programs do while a benchmark runs; made when it begins.

    Args:
        most_others: cores that other programs may use while these figures are taken.
        watch_s: look at all processes below this one so often. Only a parent that waits for its
            child passes its processor time on; Ray's, which ignores SIGCHLD, doesn't.
    """

    def __init__(self, most_others: float, watch_s: float | None = None) -> None:
        self._most_others = most_others
        # What is left of a program that ended, such as multiprocessing's fork server, becomes a
        # child of this process, so that its time is known, and not that of others.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._seen: dict[psutil.Process, float] = {}
        self._since = time.monotonic()
        self._all, self._own = _all_seconds(), _own_seconds()
        if watch_s:
            threading.Thread(target=self._watch, args=(watch_s,), daemon=True).start()

    @property
    def others(self) -> float:
        """How many cores other programs have used, in the mean."""
        # Both are too low: by what was not passed on, and by what was not seen.
        own = max(_own_seconds() - self._own, sum(list(self._seen.values())))
        return max(0.0, (_all_seconds() - self._all - own) / (time.monotonic() - self._since))

    def _watch(self, every_s: float) -> None:
        this = psutil.Process()
        before = {this: sum(this.cpu_times()[:2])}
        while True:
            for process in [this, *this.children(recursive=True)]:
                with contextlib.suppress(psutil.Error):  # it has ended just now
                    spent = sum(process.cpu_times()[:2]) - before.get(process, 0.0)
                    self._seen[process] = spent
            time.sleep(every_s)

    def stamp(self) -> str:
        """Return the line that a page needs: commit, machine and load.

        Raises:
            SystemExit: other programs used more of the machine than these figures stand, so the
                page stays as it was.
        """
        others = self.others
        if others > self._most_others:
            raise SystemExit(
                f"The page was not written: other programs used {others:.2f} cores while its "
                f"figures were taken, and they stand {self._most_others:g}. The old page stays. "
                "End what else runs on this machine, then run the same command again."
            )
        return (
            f"Measured at commit {current_commit()}, on {os.cpu_count()} cores of {_processor()}, "
            f"Python {platform.python_version()}; other programs used {others:.2f} cores."
        )


def _all_seconds() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def _own_seconds() -> float:
    """Processor time of this process and of all that it has started, ended ones included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.process_time() + ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):
        try:
            seconds += sum(child.cpu_times()[:4])
        except psutil.Error:  # it has ended just now
            continue
    return seconds


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()
