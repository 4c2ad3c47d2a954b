"""Engines that run detection: in worker processes on this machine, or in this process.

An engine takes jobs while it has capacity and yields their outcomes in the same order. A `Work`
processes the jobs; streams and replays have their own. The third engine, Ray, is in
`ray_engine`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import structlog
from threadpoolctl import threadpool_limits

from stream_icd.errors import BadMemory, ModelDamaged, OverBudget
from stream_icd.execution.budget import MessageAllowance
from stream_icd.execution.processes import InHand, Processes
from stream_icd.execution.relay import Chains, First, LocalRelay, Relay, nothing
from stream_icd.execution.without_pandas import without_pandas
from stream_icd.kafka.clock import Stop
from stream_icd.messages.outcome import Refused
from stream_icd.registry.shipped import VersionedModel, open_model

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Handle = TypeVar("Handle")
J = TypeVar("J", contravariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741

IN_HAND = 8
"""Jobs submitted for each worker: one in progress, the others queued."""

IN_HAND_OF_CHAINS = 4 * IN_HAND
"""The same if jobs form chains: so many that jobs of several chains are among them."""


class Engine(Protocol[Job, Outcome]):  # type: ignore[misc]
    """Runs jobs, and yields their outcomes in the same order."""

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome]]:
        """Run the jobs.

        Args:
            first: what the first job of each chain takes.
        """
        ...


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
        """Return the outcome of a job.

        Args:
            relay: connects the job to its chain; given only if it belongs to one.
        """
        ...

    def chain(self, job: J, /) -> str | None:
        """Return the chain that the job belongs to; None if it depends on no other job."""
        ...

    def name(self, job: J, /) -> str:
        """Return the job's name for error messages."""
        ...

    def allowance(self, job: J, /) -> MessageAllowance:
        """Return the resource limits for the job."""
        ...

    def instead(self, baton: bytes, /) -> bytes:
        """Return what a job takes instead of a baton that it cannot work with."""
        ...

    def warm_up(self) -> None:
        """Make the first job as fast as later ones."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess(Generic[Job, Outcome]):
    """Runs jobs sequentially in this process, without resource limits."""

    work: Work[Job, Outcome]

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome]]:
        relays: dict[str, LocalRelay] = {}
        for job in jobs:
            chain = self.work.chain(job)
            if chain is None:
                yield job, self.work(job)
                continue
            if chain not in relays:
                relays[chain] = LocalRelay(first(chain), first.most_bytes)
            yield job, done_in_chain(self.work, job, relays[chain])


def done_in_chain(work: Work[Job, Outcome], job: Job, relay: LocalRelay) -> Outcome:
    """Run a job in this process; if it cannot work with what it took, run it without that."""
    took = relay.baton
    try:
        return work(job, relay)
    except BadMemory as error:
        if took is None:
            raise
        log = structlog.get_logger()
        log.warning("memory cannot be used", job=work.name(job), reason=str(error))
    instead = relay.baton = work.instead(took)
    outcome = work(job, relay)
    if relay.baton is instead:  # it handed nothing on
        relay.baton = took
    return outcome


@dataclass(frozen=True, slots=True)
class ProcessPool(Generic[Job, Outcome]):
    """Worker processes on this machine; each opens the model once.

    They end with this process, even when it is killed. A killed worker is replaced; a job that
    exceeds its limits is refused: see `Processes`.

    Attributes:
        work: processes the jobs.
        model_name: where a worker finds its model.
        workers: number of processes.
        again: run a job again that ended its process; else raise `CrashedWorker`: a consumer of a
            stream counts what records end, over restarts.
    """

    work: Work[Job, Outcome]
    model_name: str
    workers: int
    again: bool = True

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome | Refused]]:
        """Run the jobs in processes that are opened for this call only."""
        with self.opened() as processes:
            yield from processes(jobs, first)

    @contextmanager
    def opened(self) -> Iterator[PoolAtWork[Job, Outcome]]:
        """Keep the processes open for the duration of the block."""
        model, settings = self.work.model, self.work.settings
        opening = Opening(type(self.work), self.model_name, model.version, settings)
        processes = Processes[Job, Outcome](opening, self.workers, self.work, again=self.again)
        with processes:
            yield PoolAtWork(processes, self.work.chain)


@dataclass(frozen=True, slots=True)
class PoolAtWork(Generic[Job, Outcome]):
    """An engine of open processes."""

    processes: Processes[Job, Outcome]
    chain: Callable[[Job], str | None]

    @property
    def alive(self) -> int:
        """Number of live processes."""
        return self.processes.alive

    @property
    def in_hand(self) -> list[InHand]:
        """The jobs in progress, the longest-running first."""
        return self.processes.in_hand

    @property
    def resident_bytes(self) -> int:
        """Resident memory of all processes together."""
        return self.processes.resident_bytes

    def wait_until_warm(self, stop: Stop) -> None:
        """Return when all processes are warm, or `stop` is set.

        Raises:
            ModelError, BadInput: see these classes.
        """
        while not self.processes.is_open(timeout_s=0.1) and not stop.is_set():
            pass

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome | Refused]]:
        chains = Chains(first)

        def submit(some: Sequence[Job]) -> list[Future[Outcome]]:
            named = [(job, self.chain(job)) for job in some]
            return self.processes.submit(
                [(job, None if chain is None else chains.link(chain)) for job, chain in named]
            )

        try:
            yield from in_order(jobs, submit, _outcome, self.processes.count * IN_HAND_OF_CHAINS)
        except BaseException:
            self.processes.abandon()
            raise


def _outcome(future: Future[Outcome]) -> Outcome | Refused:
    try:
        return future.result()
    except OverBudget as error:
        return Refused("budget", error)


@dataclass(frozen=True, slots=True)
class Opening:
    """Creates the work in a process of the pool.

    Raises:
        ModelDamaged: the model has changed in the meantime.
    """

    kind: Callable[[VersionedModel, Any], Any]
    model_name: str
    version: str
    settings: Settings

    def __call__(self) -> Any:
        without_pandas()
        threadpool_limits(self.settings.threads)
        model = open_model(self.model_name)
        if model.version != self.version:
            raise ModelDamaged(
                f"model {self.model_name} was {self.version} and is now {model.version}"
            )
        work = self.kind(model, self.settings)
        work.warm_up()
        return work


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Sequence[Job]], Sequence[Handle]],
    result: Callable[[Handle], Outcome],
    most: int,
) -> Iterator[tuple[Job, Outcome]]:
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
