"""Work on jobs, the engines that run it, the engine of this process, and what all engines share.

A job of a chain gets what the job before it hands on: the memory of their graph. Jobs of a chain
may run in different processes. The other engines are `execution.processes` and
`replay.ray_engine`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, Protocol, TypeVar

import structlog

from stream_icd.core.errors import BadMemory
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.execution.budget import Allowance

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Handle = TypeVar("Handle")
JobIn = TypeVar("JobIn", contravariant=True)
OutcomeOut = TypeVar("OutcomeOut", covariant=True)

Baton = bytes | None
"""The encoded memory that is handed on; None at the start of a chain."""


class Settings(Protocol):
    """The settings that an engine uses."""

    @property
    def threads(self) -> int:
        """Cores that one job may use."""


class Work(Protocol[JobIn, OutcomeOut]):
    """Processes jobs; each process creates its own, from a model and settings."""

    @property
    def model(self) -> VersionedModel: ...

    @property
    def settings(self) -> Settings: ...

    def __call__(self, job: JobIn, relay: Relay = ..., /) -> OutcomeOut:
        """Return the outcome of a job; the relay is given if it belongs to a chain."""

    def chain(self, job: JobIn, /) -> str | None:
        """Return the chain that the job belongs to; None if it depends on no other job."""

    def name(self, job: JobIn, /) -> str:
        """Return the job's name for error messages."""

    def allowance(self, job: JobIn, /) -> Allowance:
        """Return the resource limits for the job."""

    def warm_up(self) -> None:
        """Make the first job as fast as later ones."""


class Relay(Protocol):
    """A job's connection to its chain."""

    @property
    def most_bytes(self) -> float:
        """The size that the message of what is handed on may have."""

    def take(self) -> Baton:
        """Return what the job before handed on; if it has not ended yet, wait for it here."""

    def pass_on(self, baton: bytes) -> None:
        """Hand something on when the job is done; the next one of the chain continues with it.

        A job that hands nothing on, or that fails, hands on what it could take.
        """


@dataclass(slots=True)
class LocalRelay:
    """A relay within one process: `baton` is what the job takes, then what it handed on."""

    baton: Baton = None
    most_bytes: float = math.inf

    def take(self) -> Baton:
        return self.baton

    def pass_on(self, baton: bytes) -> None:
        self.baton = baton


@dataclass(frozen=True, slots=True)
class First:
    """What the first job of each chain takes; by default nothing. For `most_bytes`, see `Relay`."""

    of_chain: Callable[[str], Baton] = lambda _chain: None
    most_bytes: float = math.inf


Engine = Callable[[Iterable[Job], First], Iterator[tuple[Job, Outcome]]]
"""Takes jobs while it has capacity, and yields their outcomes in the same order."""


@dataclass(frozen=True, slots=True)
class InProcess(Generic[Job, Outcome]):
    """Runs jobs sequentially in this process, without resource limits."""

    work: Work[Job, Outcome]

    def __call__(
        self, jobs: Iterable[Job], first: First = First(), /
    ) -> Iterator[tuple[Job, Outcome]]:
        relays: dict[str, LocalRelay] = {}
        for job in jobs:
            chain = self.work.chain(job)
            if chain is None:
                yield job, self.work(job)
                continue
            if chain not in relays:
                relays[chain] = LocalRelay(first.of_chain(chain), first.most_bytes)
            yield job, done_in_chain(self.work, job, relays[chain])


def done_in_chain(work: Work[Job, Outcome], job: Job, relay: LocalRelay) -> Outcome:
    """Run a job in this process; if its graph's memory cannot be used, the graph starts anew."""
    took = relay.baton
    try:
        return work(job, relay)
    except BadMemory as error:
        if took is None:
            raise
        instead = relay.baton = started_anew(took, work.name(job), error)
    outcome = work(job, relay)
    if relay.baton is instead:  # it handed nothing on
        relay.baton = took
    return outcome


def started_anew(memory: bytes, job: str, reason: object) -> bytes:
    """Return what a job takes instead of a memory that cannot be used, and log the reason."""
    # It imports Numba, which the main process of a detector needs only here.
    from stream_icd.methods.memory.encoding import anew

    structlog.get_logger().warning("memory cannot be used", job=job, reason=str(reason))
    return anew(memory)


IN_HAND = 16
"""Jobs submitted for each worker: one in progress, the others queued."""

IN_HAND_OF_CHAINS = 2 * IN_HAND
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
class Waiting(Generic[Job, Outcome]):
    """A job that waits for a process, or for its outcome; cancelled if nobody waits for it."""

    job: Job
    link: Link | None  # its place in its chain, if it belongs to one
    attempts: int = 0  # how many processes have ended while they worked on it
    future: Future[Outcome] = field(default_factory=Future)

    def __post_init__(self) -> None:
        if (link := self.link) is not None:
            self.future.add_done_callback(lambda _: link.ended())

    @property
    def chain(self) -> str | None:
        return None if self.link is None else self.link.chain

    def done(self, result: Outcome) -> None:
        with suppress(InvalidStateError):
            self.future.set_result(result)

    def failed(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


def next_jobs(
    waiting: list[Waiting[Job, Outcome]], n_processes: int
) -> list[Waiting[Job, Outcome]]:
    """Remove the jobs that a process runs next, one after the other, and return them; none if all
    wait for jobs in progress.

    Between two of them it waits for no message, which would take a millisecond. If there is work
    for other processes, it gets half of its share, so that all end at about the same time.

    A job that can run at once comes first; of these, one of the chain with most jobs waiting, so
    that chains end together; of these, the first one. What follows it in its chain comes next: in
    another process, its memory would have to be read.
    """
    left = Counter(job.chain for job in waiting)
    n_at_once = min(n_processes, len(left) + max(left[None] - 1, 0))
    share = len(waiting) if n_at_once < 2 else math.ceil(len(waiting) / (2 * n_at_once))
    begun: list[Waiting[Job, Outcome]] = []
    while len(begun) < min(share, IN_HAND):
        last = begun[-1].link if begun else None
        urgencies = [_urgency(job.link, last, left) for job in waiting]
        most = max(urgencies)
        if most == (False, 0):
            break
        begun.append(waiting.pop(urgencies.index(most)))
        left[begun[-1].chain] -= 1
    return begun


def _urgency(
    link: Link | None, last: Link | None, left: Mapping[str | None, int]
) -> tuple[bool, int]:
    """Return whether a job follows the last one, and if it can run at once, how many of its chain
    are `left`."""
    if link is None:
        return False, 1
    follows = last is not None and link.before is last.after
    return follows, left[link.chain] if link.is_ready else 0


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Sequence[Job]], Sequence[Handle]],
    result: Callable[[Handle], Outcome],
    most: int,
) -> Iterator[tuple[Job, Outcome]]:
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
