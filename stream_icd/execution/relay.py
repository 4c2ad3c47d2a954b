"""Work on jobs. Each job of a chain gets what the one before hands on, such as a graph's memory.

Jobs of a chain may run in different processes, and may begin before the job before them has ended:
only `take` waits for it.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from stream_icd.execution.budget import Allowance
from stream_icd.registry.model import VersionedModel

J = TypeVar("J", contravariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741

Baton = bytes | None
"""What is handed on; None at the start of a chain."""


class Settings(Protocol):
    """The settings that an engine uses."""

    @property
    def threads(self) -> int:
        """Cores that one job may use."""
        ...


class Work(Protocol[J, O]):
    """Processes jobs; each process creates its own, from a model and settings."""

    @property
    def model(self) -> VersionedModel: ...

    @property
    def settings(self) -> Settings: ...

    def __call__(self, job: J, relay: Relay = ..., /) -> O:
        """Return the outcome of a job; the relay is given if it belongs to a chain."""
        ...

    def chain(self, job: J, /) -> str | None:
        """Return the chain that the job belongs to; None if it depends on no other job."""
        ...

    def name(self, job: J, /) -> str:
        """Return the job's name for error messages."""
        ...

    def allowance(self, job: J, /) -> Allowance:
        """Return the resource limits for the job."""
        ...

    def instead(self, baton: bytes, /) -> bytes:
        """Return what a job takes instead of a baton that it cannot work with."""
        ...

    def warm_up(self) -> None:
        """Make the first job as fast as later ones."""
        ...


class Relay(Protocol):
    """A job's connection to its chain."""

    @property
    def most_bytes(self) -> float:
        """The size that the message of what is handed on may have."""
        ...

    def take(self) -> Baton:
        """Return what the job before handed on; wait for it if necessary."""
        ...

    def pass_on(self, baton: bytes) -> None:
        """Hand something on when the job is done; the next one of the chain continues with it.

        A job that hands nothing on, or that fails, hands on what it could take.
        """
        ...


@dataclass(slots=True)
class LocalRelay:
    """A relay within one process: `baton` is what the job takes, then what it handed on."""

    baton: Baton = None
    most_bytes: float = math.inf

    def take(self) -> Baton:
        return self.baton

    def pass_on(self, baton: bytes) -> None:
        self.baton = baton


@dataclass(slots=True, eq=False)
class Link:
    """The place of a job in its chain, in the process that distributes the jobs.

    Attributes:
        before: what the job before hands on.
        after: what this job hands on.
        took: what the job has taken; None if nothing.
        instead: what the job takes instead of that, if it cannot work with it.
    """

    chain: str
    before: Future[Baton]
    after: Future[Baton]
    most_bytes: float = math.inf
    took: Baton = None
    instead: Baton = None

    @property
    def is_ready(self) -> bool:
        return self.before.done()

    @property
    def offered(self) -> Baton:
        """What the job before handed on, or `instead`; waits for it if necessary."""
        return self.before.result() if self.instead is None else self.instead

    def take(self) -> Baton:
        """Return what is `offered`, and note that it was taken."""
        self.took = self.offered
        return self.took

    def pass_on(self, baton: Baton) -> None:
        """Hand something on; only the first call counts: a job that runs again repeats it."""
        if not self.after.done():
            self.after.set_result(baton)

    def ended(self) -> None:
        """The job has ended: unless it handed something on, the next one takes what it took."""
        if not self.after.done():
            self.before.add_done_callback(lambda before: self.pass_on(before.result()))


class Chains:
    """The links of jobs, in the order of the jobs."""

    def __init__(self, first: First) -> None:
        self._first = first
        self._last: dict[str, Future[Baton]] = {}

    def link(self, chain: str | None) -> Link | None:
        """Return the link of the chain's next job; None if the job depends on no other."""
        if chain is None:
            return None
        before = self._last.get(chain)
        if before is None:
            before = Future()
            before.set_result(self._first(chain))
        link = Link(chain, before, Future(), self._first.most_bytes)
        self._last[chain] = link.after
        return link


class First(Protocol):
    """Returns what the first job of a chain takes."""

    @property
    def most_bytes(self) -> float:
        """See `Relay`."""
        ...

    def __call__(self, chain: str, /) -> Baton: ...


@dataclass(frozen=True)
class Nothing:
    """Starts every chain with nothing."""

    most_bytes: ClassVar[float] = math.inf

    def __call__(self, _chain: str, /) -> Baton:
        return None


nothing = Nothing()
