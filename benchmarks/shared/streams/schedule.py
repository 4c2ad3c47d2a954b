"""How long processes take for the windows of a stream, with memory from one to the next.

A simulation with the scheduler of worker processes (`execution.work`), from the processor time
of each window. Unlike a clock, it does not depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice

from stream_icd.streaming.execution.work import IN_HAND_OF_CHAINS, Chains, First, Waiting, next_jobs


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
    chains, rest, order = Chains(First()), iter(enumerate(windows)), count()
    waiting: list[Waiting[int, None]] = []
    events: list[tuple[float, int, Waiting[int, None], bool]] = []  # whether a process is idle then
    done: set[int] = set()
    now, free, oldest = 0.0, processes, 0

    def submit(most: int) -> None:
        for at, window in islice(rest, most):
            link = None if window.chain is None else chains.link(window.chain)
            waiting.append(Waiting(at, link))

    submit(processes * IN_HAND_OF_CHAINS)
    while waiting or events:
        while free and (jobs := next_jobs(waiting, processes)):
            free, ends = free - 1, now
            for one in jobs:
                ends += windows[one.job].seconds
                heappush(events, (ends, next(order), one, one is jobs[-1]))
        now, _, one, is_last = heappop(events)
        if one.link is not None:
            one.link.pass_on(b"")
        free += is_last
        done.add(one.job)
        while oldest in done:  # results are published in order, then the next window is read
            oldest += 1
            submit(1)
    return now
