"""Work on jobs, the engines that run it, the engine of this process, and what all engines share.

Jobs of a chain follow each other, as the windows of a graph do: each begins with the memory that
the one before left. So one process at a time has the jobs of a chain. The other engines are
`execution.processes` and `replay.ray_engine`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import structlog

from stream_icd.core.errors import BadMemory
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.execution.budget import Allowance

if TYPE_CHECKING:
    from stream_icd.methods.bp.known import Known

Job = TypeVar("Job")
_Outcome = TypeVar("_Outcome")
_Handle = TypeVar("_Handle")
_JobIn = TypeVar("_JobIn", contravariant=True)
_OutcomeOut = TypeVar("_OutcomeOut", covariant=True)


class _EngineSettings(Protocol):
    """The settings that an engine uses."""

    @property
    def threads(self) -> int:
        """Cores that one job may use."""


class Work(Protocol[_JobIn, _OutcomeOut]):
    """Processes jobs; each process creates its own, from a model and settings."""

    @property
    def model(self) -> VersionedModel: ...

    @property
    def settings(self) -> _EngineSettings: ...

    def __call__(self, job: _JobIn, relay: Relay = ..., /) -> _OutcomeOut:
        """Return the outcome of a job; the relay is given if it belongs to a chain."""

    def chain(self, job: _JobIn, /) -> str | None:
        """Return the chain that the job belongs to; None if it depends on no other job."""

    def name(self, job: _JobIn, /) -> str:
        """Return the job's name for error messages."""

    def allowance(self, job: _JobIn, /) -> Allowance:
        """Return the resource limits for the job."""

    def warm_up(self) -> None:
        """Make the first job as fast as later ones."""


@dataclass(slots=True)
class Relay:
    """What the jobs of a chain hand on.

    Attributes:
        memory: encoded: what the next job begins with, None at the start. A job replaces it by
            what it leaves; one that leaves it alone, or fails, changes nothing for the next.
        most_bytes: the size that its message may have.
        known: communities of some nodes; None: those of the settings, if any.
    """

    memory: bytes | None = None
    most_bytes: float = math.inf
    known: Known | None = None

    @classmethod
    def empty(cls, _chain: str) -> Self:
        """Return the relay of a chain whose first job begins with nothing."""
        return cls()

    def start_anew(self, memory: bytes, job: str, reason: object) -> bytes:
        """Replace a memory that cannot be used, log the reason, and return what takes its place."""
        # It imports Numba, which the main process of a detector needs only here.
        from stream_icd.methods.memory.encoding import anew

        structlog.get_logger().warning("memory cannot be used", job=job, reason=str(reason))
        self.memory = anew(memory)
        return self.memory


First = Callable[[str], Relay]
"""Returns the relay that the first job of a chain begins with."""

Engine = Callable[[Iterable[Job], First], Iterator[tuple[Job, _Outcome]]]
"""Takes jobs while it has capacity, and yields their outcomes in the same order."""


@dataclass(frozen=True, slots=True)
class InProcess(Generic[Job, _Outcome]):
    """Runs jobs sequentially in this process, without resource limits."""

    work: Work[Job, _Outcome]

    def __call__(
        self, jobs: Iterable[Job], first: First = Relay.empty, /
    ) -> Iterator[tuple[Job, _Outcome]]:
        relays: dict[str, Relay] = {}
        for job in jobs:
            chain = self.work.chain(job)
            if chain is not None and chain not in relays:
                relays[chain] = first(chain)
            yield job, run_job(self.work, job, None if chain is None else relays[chain])


def run_job(work: Work[Job, _Outcome], job: Job, relay: Relay | None = None) -> _Outcome:
    """Run a job in this process; if its graph's memory cannot be used, the graph starts anew.

    relay: None if the job belongs to no chain.
    """
    if relay is None:
        return work(job)
    memory = relay.memory
    try:
        return work(job, relay)
    except BadMemory as error:
        if memory is None:
            raise
        instead = relay.start_anew(memory, work.name(job), error)
    try:
        return work(job, relay)
    finally:
        if relay.memory is instead:  # it left nothing
            relay.memory = memory


IN_HAND = 16
"""Jobs submitted for each worker: one in progress, the others queued."""

IN_HAND_OF_CHAINS = 2 * IN_HAND
"""The same if jobs form chains: so many that jobs of several chains are among them."""


@dataclass(slots=True, eq=False)
class Waiting(Generic[Job, _Outcome]):
    """A job that waits for a process, or for its outcome; cancelled if nobody waits for it."""

    job: Job
    allowance: Allowance
    chain: str | None = None  # the name of its chain, if it belongs to one
    relay: Relay | None = None  # that of the chain, which its jobs share
    attempts: int = 0  # how many processes have ended while they worked on it
    future: Future[_Outcome] = field(default_factory=Future)
    instead: bytes | None = None  # what it begins with instead of a memory that it fails with
    _memory: bytes | None = None  # that memory, which the next job begins with if it leaves none

    def start_anew(self, name: str, reason: object) -> bool:
        """Begin without the memory of the graph from now on; False if there is none to blame."""
        if self.relay is None or self.relay.memory is None or self.instead is not None:
            return False
        # Processes that ended with the memory say nothing about the job without it.
        self._memory, self.attempts = self.relay.memory, 0
        self.instead = self.relay.start_anew(self._memory, name, reason)
        return True

    def done(self, result: _Outcome) -> None:
        self._ended()
        with suppress(InvalidStateError):
            self.future.set_result(result)

    def failed(self, error: BaseException) -> None:
        self._ended()
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def _ended(self) -> None:
        # Before the future is set: whoever waits for it may begin the next job of the chain.
        relay = None if self.instead is None else self.relay
        if relay is not None and relay.memory is self.instead:  # it left nothing
            relay.memory = self._memory


def next_jobs(
    waiting: list[Waiting[Job, _Outcome]], n_processes: int, running: set[str]
) -> list[Waiting[Job, _Outcome]]:
    """Remove and return the jobs that a process runs next, one after the other; none if all are of
    chains that are `running` in other processes. Their chains are added to `running`.

    Between two of them it waits for no message, which would take a millisecond. If there is work
    for other processes, it gets half of its share, so that all end at about the same time. Those
    of the chain with most jobs waiting come first, so that chains end together.
    """
    of_chain = Counter(job.chain for job in waiting)
    # Each job without a chain can run beside all others; a whole chain counts as one.
    n_at_once = min(n_processes, len(of_chain) + max(of_chain[None] - 1, 0))
    share = len(waiting) if n_at_once < 2 else math.ceil(len(waiting) / (2 * n_at_once))
    place = {job.chain: at for at, job in reversed(list(enumerate(waiting)))}

    def urgency(at: int) -> tuple[int, int]:
        chain = waiting[at].chain
        return (-1, at) if chain is None else (-of_chain[chain], place[chain])

    ready = (at for at, job in enumerate(waiting) if job.chain not in running)
    begun = [waiting[at] for at in sorted(ready, key=urgency)[: min(share, IN_HAND)]]
    for job in begun:
        waiting.remove(job)
    running.update(job.chain for job in begun if job.chain is not None)
    return begun


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Sequence[Job]], Sequence[_Handle]],
    result: Callable[[_Handle], _Outcome],
    most: int,
) -> Iterator[tuple[Job, _Outcome]]:
    """Submit jobs, at most `most` at a time, and yield their outcomes in the jobs' order. The first
    ones are submitted together, so that `submit` can choose which begin."""
    rest = iter(jobs)
    begun = list(islice(rest, most))
    waiting = deque(zip(begun, submit(begun), strict=True))
    while waiting:
        first, handle = waiting.popleft()
        yield first, result(handle)
        for job in islice(rest, 1):
            waiting.append((job, submit([job])[0]))
