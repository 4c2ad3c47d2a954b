"""Engines that run detection: in worker processes on this machine, or in this process.

A `Work` processes the jobs; streams and replays have their own. The third engine is
`replay.ray_engine`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import structlog
from threadpoolctl import threadpool_limits

from stream_icd.errors import BadMemory, ModelDamaged
from stream_icd.execution.processes import Processes
from stream_icd.execution.relay import First, LocalRelay, Settings, Work, nothing
from stream_icd.messages.records import Refused
from stream_icd.registry.find import open_model
from stream_icd.registry.model import VersionedModel

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")


class Engine(Protocol[Job, Outcome]):  # type: ignore[misc]
    """Takes jobs while it has capacity, and yields their outcomes in the same order."""

    def __call__(
        self, jobs: Iterable[Job], first: First = nothing, /
    ) -> Iterator[tuple[Job, Outcome]]: ...


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
        with self.opened() as processes:
            yield from processes(jobs, first)

    def opened(self) -> Processes[Job, Outcome]:
        """Start the processes; they end with the `with` block of what is returned."""
        work = self.work
        opening = partial(open_work, type(work), self.model_name, work.model.version, work.settings)
        return Processes(opening, self.workers, work, again=self.again)


def open_work(
    kind: Callable[[VersionedModel, Any], Any], model_name: str, version: str, settings: Settings
) -> Any:
    """Create the work in a process of the pool; raise ModelDamaged if the model has changed."""
    without_pandas()
    threadpool_limits(settings.threads)
    model = open_model(model_name)
    if model.version != version:
        raise ModelDamaged(f"model {model_name} was {version} and is now {model.version}")
    work = kind(model, settings)
    work.warm_up()
    return work


class _NoPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed here", name=fullname)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, and find none; it looks once.

    It would otherwise import it, where it is installed, to ask whether an array is one of pandas:
    an eighth of the time in which a worker process starts, and 30 MB. Other code may import pandas.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
