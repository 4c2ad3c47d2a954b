"""Where detection is done: in this process, or in a pool of processes on this machine.

An engine takes jobs as it has room for them and gives their outcomes in the same order. What is
done to a job is a `Work`; streams and replays have theirs. The third engine, Ray, is in
`ray_engine`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from stream_icd.errors import ModelDamaged
from stream_icd.pipeline.processes import Processes
from stream_icd.registry.shipped import VersionedModel, open_model

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Handle = TypeVar("Handle")
J = TypeVar("J", contravariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741

Engine = Callable[[Iterable[Job]], Iterator[tuple[Job, Outcome]]]

IN_HAND = 8
"""Jobs given out for each worker: one that it is at, and those that wait."""


class Settings(Protocol):
    """As far as an engine looks at them."""

    @property
    def threads(self) -> int:
        """Cores that one job may use."""
        ...


class Work(Protocol[J, O]):
    """What is done to a job; made of a model and settings, in each process anew."""

    @property
    def model(self) -> VersionedModel: ...

    @property
    def settings(self) -> Settings: ...

    def __call__(self, job: J, /) -> O: ...

    def name(self, job: J, /) -> str:
        """What to call the job in an error."""
        ...


@dataclass(frozen=True, slots=True)
class InProcess(Generic[Job, Outcome]):
    """One after the other, here."""

    work: Work[Job, Outcome]

    @property
    def alive(self) -> int:
        """How many processes are there to do jobs."""
        return 1

    def __call__(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        for job in jobs:
            yield job, self.work(job)


@dataclass(frozen=True, slots=True)
class ProcessPool(Generic[Job, Outcome]):
    """Worker processes on this machine, each of which opens the model once.

    They end with this process, even when it is killed. One that is killed is replaced, and what
    it was at is done again: see `Processes`.

    Attributes:
        work: what is done.
        model_name: where a worker finds its model.
        workers: how many processes.
    """

    work: Work[Job, Outcome]
    model_name: str
    workers: int

    def __call__(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Open the processes for these jobs only."""
        with self.opened() as processes:
            yield from processes(jobs)

    @contextmanager
    def opened(self) -> Iterator[PoolAtWork[Job, Outcome]]:
        """The processes, for as long as the block lasts."""
        model, settings = self.work.model, self.work.settings
        opening = Opening(type(self.work), self.model_name, model.version, settings)
        with Processes(opening, self.workers, self.work.name) as processes:
            yield PoolAtWork(processes)


@dataclass(frozen=True, slots=True)
class PoolAtWork(Generic[Job, Outcome]):
    """The engine that open processes are."""

    processes: Processes[Job, Outcome]

    @property
    def alive(self) -> int:
        """How many processes are there to do jobs."""
        return self.processes.alive

    def __call__(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        most = self.processes.count * IN_HAND
        return in_order(jobs, self.processes.submit, Future.result, most)


@dataclass(frozen=True, slots=True)
class Opening:
    """Makes the work in a process of the pool.

    Raises:
        ModelDamaged: the model is another one by now.
    """

    kind: Callable[[VersionedModel, Any], Any]
    model_name: str
    version: str
    settings: Settings

    def __call__(self) -> Any:
        threadpool_limits(self.settings.threads)
        model = open_model(self.model_name)
        if model.version != self.version:
            raise ModelDamaged(
                f"model {self.model_name} was {self.version} and is now {model.version}"
            )
        return self.kind(model, self.settings)


@contextmanager
def open_engine(
    work: Work[Job, Outcome], model_name: str, processes: int
) -> Iterator[InProcess[Job, Outcome] | PoolAtWork[Job, Outcome]]:
    """This process for one, a pool for several; for as long as the block lasts."""
    if processes == 1:
        yield InProcess(work)
        return
    with ProcessPool(work, model_name, processes).opened() as pool:
        yield pool


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Job], Handle],
    result: Callable[[Handle], Outcome],
    most: int,
) -> Iterator[tuple[Job, Outcome]]:
    """Give out jobs, at most `most` at a time, and yield their outcomes in the jobs' order."""
    waiting: deque[tuple[Job, Handle]] = deque()
    for job in jobs:
        waiting.append((job, submit(job)))
        if len(waiting) >= most:
            first, handle = waiting.popleft()
            yield first, result(handle)
    for first, handle in waiting:
        yield first, result(handle)
