"""How long processes take for the windows of a stream, with memory from one to the next.

A simulation with the scheduler of worker processes (`execution.work`), from the processor time
of each window. Unlike a clock, it does not depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, islice

from stream_icd.streaming.execution.work import IN_HAND_OF_CHAINS, Chain, Relay, Waiting, next_jobs


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
    chains = {one.chain: Chain(one.chain, Relay()) for one in windows if one.chain is not None}
    rest, order = iter(enumerate(windows)), count()
    waiting: list[Waiting[int, None]] = []
    events: list[tuple[float, int, int, list[Waiting[int, None]]]] = []  # of the last job: all
    done: set[int] = set()
    now, free, oldest = 0.0, processes, 0

    def submit(most: int) -> None:
        for at, window in islice(rest, most):
            waiting.append(Waiting(at, None if window.chain is None else chains[window.chain]))

    submit(processes * IN_HAND_OF_CHAINS)
    while waiting or events:
        while free and (jobs := next_jobs(waiting, processes)):
            free, ends = free - 1, now
            for one in jobs:
                ends += windows[one.job].seconds
                heappush(events, (ends, next(order), one.job, jobs if one is jobs[-1] else []))
        now, _, at, ended = heappop(events)
        free += bool(ended)
        for one in ended:
            if one.chain is not None:
                one.chain.is_running = False
        done.add(at)
        while oldest in done:  # results are published in order, then the next window is read
            oldest += 1
            submit(1)
    return now
