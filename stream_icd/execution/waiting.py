"""Jobs that wait for their turn: how many at a time, and which of them is next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from stream_icd.execution.relay import Link

Job = TypeVar("Job")
Result = TypeVar("Result")
Handle = TypeVar("Handle")

IN_HAND = 8
"""Jobs submitted for each worker: one in progress, the others queued."""

IN_HAND_OF_CHAINS = 4 * IN_HAND
"""The same if jobs form chains: so many that jobs of several chains are among them."""


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Generic[Job, Result]):
    """A job that waits for a process; `link` is its place in its chain, if it belongs to one."""

    job: Job
    link: Link | None = None
    future: Future[Result] = field(default_factory=Future)


def next_job(waiting: list[Waiting[Job, Result]]) -> Waiting[Job, Result]:
    """Remove the next job and return it.

    A job that can run at once comes first; of these, one of the chain with most jobs waiting, so
    that chains end together; of these, the first one. If no job can run at once, the first one
    begins what it can do before it needs the job before it, which is in progress.
    """
    left = Counter(one.link.chain for one in waiting if one.link is not None)

    def urgency(at: int) -> tuple[bool, int, int]:
        link = waiting[at].link
        if link is None:
            return True, 1, -at
        return link.is_ready, left[link.chain] if link.is_ready else 0, -at

    return waiting.pop(max(range(len(waiting)), key=urgency))


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Sequence[Job]], Sequence[Handle]],
    result: Callable[[Handle], Result],
    most: int,
) -> Iterator[tuple[Job, Result]]:
    """Submit jobs, at most `most` at a time, and yield their outcomes in the jobs' order.

    The first `most` jobs are submitted together, so that it can be chosen which begin first.
    """
    rest = iter(jobs)
    begun = list(islice(rest, most))
    waiting = deque(zip(begun, submit(begun), strict=True))
    while waiting:
        first, handle = waiting.popleft()
        yield first, result(handle)
        for job in islice(rest, 1):
            waiting.append((job, submit([job])[0]))
