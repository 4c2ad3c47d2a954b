"""Work on jobs, the engines that run it, and the engine of this process.

A job of a chain gets what the job before it hands on: the memory of their graph. The other engines
are `execution.processes` and `replay.ray_engine`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from stream_icd.errors import BadMemory
from stream_icd.execution.budget import Allowance
from stream_icd.registry.model import VersionedModel

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
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
    from stream_icd.memory.encoding import anew

    structlog.get_logger().warning("memory cannot be used", job=job, reason=str(reason))
    return anew(memory)
