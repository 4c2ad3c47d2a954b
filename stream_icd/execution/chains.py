"""Jobs that wait for their turn: which is next, and what it gets from the one before in its chain.

Jobs of a chain may run in different processes.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from stream_icd.execution.work import Baton, First

Job = TypeVar("Job")
Result = TypeVar("Result")
Handle = TypeVar("Handle")

IN_HAND = 8
"""Jobs submitted for each worker: one in progress, the others queued."""

IN_HAND_OF_CHAINS = 4 * IN_HAND
"""The same if jobs form chains: so many that jobs of several chains are among them."""


@dataclass(slots=True, eq=False)
class Link:
    """The place of a job in its chain, in the process that distributes the jobs."""

    chain: str
    before: Future[Baton]  # what the job before hands on
    after: Future[Baton]  # what this job hands on
    most_bytes: float = math.inf
    took: Baton = None  # what the job has taken; None if nothing
    instead: Baton = None  # what the job takes instead of that, if it cannot work with it

    @property
    def is_ready(self) -> bool:
        return self.before.done()

    def take(self) -> Baton:
        """Return what the job before handed on, or `instead`; wait for it if necessary."""
        self.took = self.before.result() if self.instead is None else self.instead
        return self.took

    def pass_on(self, baton: Baton) -> None:
        """Hand something on; only the first call counts: a job that runs again repeats it."""
        if not self.after.done():
            self.after.set_result(baton)

    def ended(self) -> None:
        """The job has ended: unless it handed something on, the next one takes what it took."""
        if not self.after.done():
            self.before.add_done_callback(lambda before: self.pass_on(before.result()))


@dataclass(slots=True)
class Chains:
    """The links of jobs, in the order of the jobs."""

    first: First
    _last: dict[str, Future[Baton]] = field(default_factory=dict)

    def link(self, chain: str | None) -> Link | None:
        """Return the link of the chain's next job; None if the job depends on no other."""
        if chain is None:
            return None
        if chain not in self._last:
            self._last[chain] = Future()
            self._last[chain].set_result(self.first.of_chain(chain))
        link = Link(chain, self._last[chain], Future(), self.first.most_bytes)
        self._last[chain] = link.after
        return link


@dataclass(slots=True, eq=False)
class Waiting(Generic[Job, Result]):
    """A job that waits for a process, or for its outcome; cancelled if nobody waits for it."""

    job: Job
    link: Link | None  # its place in its chain, if it belongs to one
    attempts: int = 0  # how many processes have ended while they worked on it
    future: Future[Result] = field(default_factory=Future)

    def __post_init__(self) -> None:
        if (link := self.link) is not None:
            self.future.add_done_callback(lambda _: link.ended())

    def done(self, result: Result) -> None:
        with suppress(InvalidStateError):
            self.future.set_result(result)

    def failed(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


def next_jobs(waiting: list[Waiting[Job, Result]], n_processes: int) -> list[Waiting[Job, Result]]:
    """Remove the jobs that a process runs next, one after the other, and return them.

    Between two of them it waits for no message, which would take a millisecond. If there are other
    processes, it gets half of its share, so that all end at about the same time.

    A job that can run at once comes first; of these, one of the chain with most jobs waiting, so
    that chains end together; of these, the first one. What follows it in its chain comes next, if
    there are chains enough for the other processes. If no job can run at once, the first one begins
    what it can do before it needs the job before it, which is in progress.
    """
    share = len(waiting) if n_processes == 1 else math.ceil(len(waiting) / (2 * n_processes))
    begun: list[Waiting[Job, Result]] = []
    while len(begun) < min(share, IN_HAND):
        left = Counter(job.link.chain for job in waiting if job.link is not None)
        last = begun[-1].link if begun and len(left) >= n_processes else None
        urgencies = [_urgency(job.link, last, left) for job in waiting]
        follows, is_ready, _ = most = max(urgencies)
        if begun and not (follows or is_ready):
            break
        begun.append(waiting.pop(urgencies.index(most)))
    return begun


def _urgency(
    link: Link | None, last: Link | None, left: Mapping[str, int]
) -> tuple[bool, bool, int]:
    """Return whether a job follows the last one, can run at once, and if so, how many of its chain
    are `left`."""
    if link is None:
        return False, True, 1
    follows = last is not None and link.before is last.after
    return follows, link.is_ready, left[link.chain] if link.is_ready else 0


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Sequence[Job]], Sequence[Handle]],
    result: Callable[[Handle], Result],
    most: int,
) -> Iterator[tuple[Job, Result]]:
    """Submit jobs, at most `most` at a time, and yield their outcomes in the jobs' order. The first
    ones are submitted together, so that it can be chosen which begin first."""
    rest = iter(jobs)
    begun = list(islice(rest, most))
    waiting = deque(zip(begun, submit(begun), strict=True))
    while waiting:
        first, handle = waiting.popleft()
        yield first, result(handle)
        for job in islice(rest, 1):
            waiting.append((job, submit([job])[0]))
