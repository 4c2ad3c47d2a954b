"""How long processes take for the windows of a stream, with memory from one to the next.

A simulation with the scheduler of worker processes (`execution.work`), from the processor time
of each window. Unlike a clock, it does not depend on what else the machine does.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Literal

from stream_icd.execution.work import IN_HAND_OF_CHAINS, Baton, Chains, First, Waiting, next_jobs

Event = Literal["handed on", "done", "idle"]  # after the last of several jobs, a process is idle


@dataclass(frozen=True, slots=True)
class Parts:
    """Processor time for a window, in seconds.

    Attributes:
        chain: windows of a chain need the memory of each other; None: it needs none.
        ahead: before it needs the memory of the window before.
        chained: from there until it hands memory on.
        after: the rest.
    """

    chain: str | None
    ahead: float
    chained: float
    after: float

    @property
    def seconds(self) -> float:
        return self.ahead + self.chained + self.after


def makespan(windows: Sequence[Parts], processes: int) -> float:
    """Return the seconds until all windows are done by processes with a core each."""
    chains, rest, order = Chains(First()), iter(enumerate(windows)), count()
    waiting: list[Waiting[int, None]] = []
    passed: dict[Future[Baton], float] = {}  # when memory is handed on; known once a window begins
    events: list[tuple[float, int, Waiting[int, None], Event]] = []
    done: set[int] = set()
    now, free, oldest = 0.0, processes, 0

    def submit(most: int) -> None:
        for at, window in rest:
            link = None if window.chain is None else chains.link(window.chain)
            waiting.append(Waiting(at, link))
            if (most := most - 1) == 0:
                return

    def begin(jobs: Sequence[Waiting[int, None]]) -> None:
        at = now
        for one in jobs:
            window = windows[one.job]
            at += window.ahead
            if one.link is not None:
                at = max(at, passed.get(one.link.before, 0.0)) + window.chained
                passed[one.link.after] = at
                heappush(events, (at, next(order), one, "handed on"))
            else:
                at += window.chained
            at += window.after
            heappush(events, (at, next(order), one, "idle" if one is jobs[-1] else "done"))

    submit(processes * IN_HAND_OF_CHAINS)
    while waiting or events:
        while free and waiting:
            begin(next_jobs(waiting, processes))
            free -= 1
        now, _, one, event = heappop(events)
        if event == "handed on":
            assert one.link is not None
            one.link.pass_on(b"")
            continue
        free += event == "idle"
        done.add(one.job)
        while oldest in done:  # results are published in order, then the next window is read
            oldest += 1
            submit(1)
    return now
