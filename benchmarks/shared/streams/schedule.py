"""How long processes take for the windows of a stream, with memory from one to the next.

A simulation with the scheduler of worker processes (`execution.work`), from the processor time
of each window. Unlike a clock, it does not depend on what else the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice

from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import IN_HAND_OF_CHAINS, Waiting, next_jobs


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time for a window, in seconds.

    Attributes:
        chain: windows of a chain need the memory of each other; None: it needs none.
    """

    chain: str | None
    seconds: float


def makespan(windows: Sequence[Cost], processes: int) -> float:
    """Return the seconds until all windows are done by processes with a core each."""
    no_limits, running = Allowance(math.inf, 1 << 60), set[str]()
    rest, order = iter(enumerate(windows)), count()
    waiting: list[Waiting[int, None]] = []
    events: list[tuple[float, int, int, list[Waiting[int, None]]]] = []  # of the last job: all
    done: set[int] = set()
    now, free, oldest = 0.0, processes, 0

    def submit(most: int) -> None:
        for at, window in islice(rest, most):
            waiting.append(Waiting(at, no_limits, window.chain))

    submit(processes * IN_HAND_OF_CHAINS)
    while waiting or events:
        while free and (jobs := next_jobs(waiting, processes, running)):
            free, ends = free - 1, now
            for job in jobs:
                ends += windows[job.job].seconds
                heappush(events, (ends, next(order), job.job, jobs if job is jobs[-1] else []))
        now, _, at, ended = heappop(events)
        free += bool(ended)
        running.difference_update(job.chain for job in ended if job.chain is not None)
        done.add(at)
        while oldest in done:  # results are published in order, then the next window is read
            oldest += 1
            submit(1)
    return now
