"""Replays on a Ray cluster: actors hold the model and process windows (Ray Core)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from threading import Event
from typing import Any

import structlog

from stream_icd.core.errors import BadSettings, Overloaded, WorkersLost
from stream_icd.core.imports import needs_extra
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.kafka.delivery.handler import GIVEN_UP_AFTER
from stream_icd.kafka.waiting import Stop
from stream_icd.streaming.execution.work import IN_HAND, First, Relay, in_order, run_job

_LOOK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class RayActors:
    """Actors on a cluster, each with one core and a copy of the model; they read the archive.

    An actor that dies is restarted, and its windows are detected again, with the same results.

    Raises:
        MissingExtra: Ray is not installed; the message says how to install it.
        Overloaded: actors died repeatedly on one window; the message names it.
        WorkersLost, BadSettings: there is no cluster at the address, or it cannot be used.
    """

    redetection: Redetection
    workers: int  # number of actors
    address: str | None = None  # such as `auto` or `ray://head:10001`; None starts a cluster here
    stop: Stop = field(default_factory=Event)  # ends the wait for outcomes, which may last for ever

    def __call__(
        self, jobs: Iterable[ReplayJob], first: First = Relay.empty, /
    ) -> Iterator[tuple[ReplayJob, ReplayOutcome]]:
        with _connected(self.address, self.workers) as ray:
            detector, model = ray.remote(_Detector), ray.put(self.redetection)
            # Ray's own retries may all be used up by one death: those of windows are counted here.
            actor = detector.options(num_cpus=1, max_restarts=-1, max_task_retries=0)
            actors = cycle([actor.remote(model) for _ in range(self.workers)])
            # Needs no free core: the other actors use all cores.
            another, spares = partial(detector.options(num_cpus=0).remote, model), list[Any]()
            chains = _Chains(actors, self.redetection, first)
            try:
                yield from in_order(
                    jobs,
                    lambda some: [chains.begin(job) for job in some],
                    lambda begun: self._outcome(ray, another, spares, begun),
                    self.workers * IN_HAND,
                )
            except _Stopped:
                return
            except ray.exceptions.RayTaskError as error:  # its text is a traceback
                raise error.cause from error

    def _outcome(
        self, ray: Any, another: Callable[[], Any], spares: list[Any], begun: _Begun
    ) -> Any:
        died = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError)
        if not begun.took_from_a_dead_actor:
            with suppress(*died):
                outcome = self._get(ray, begun.outcome)
                begun.before = None  # it is needed no longer
                return outcome
        # When an actor dies, all its windows fail, whichever caused it: the other attempts are in
        # an actor that has no other window, the spare one or another if that died.
        for _ in range(GIVEN_UP_AFTER - 1):
            with suppress(*died):
                actor = spares.pop() if spares else another()
                outcome, memory = self._get(
                    ray, actor.detect.remote(begun.job, begun.memory_before)
                )
                spares.append(actor)
                begun.before, begun.memory = None, memory
                return outcome
        raise Overloaded(
            f"{self.redetection.name(begun.job)}: {GIVEN_UP_AFTER} actors died while they "
            "worked on it, as they do when memory runs out: give more memory, or fewer than "
            f"{self.workers} workers. Completed work is kept"
        )

    def _get(self, ray: Any, reference: Any) -> Any:
        while not ray.wait([reference], timeout=_LOOK_EVERY_S)[0]:
            if self.stop.is_set():
                raise _Stopped
        return ray.get(reference)


class _Stopped(Exception):
    """Nobody waits for the outcomes any more."""


@dataclass(slots=True, eq=False)
class _Begun:
    job: ReplayJob
    actor: Any
    before: _Begun | None  # the job before it in its chain
    took: Any  # the memory that the actor was given: a value, or a reference to a future one
    outcome: Any  # a reference to its outcome
    memory: Any  # the memory after it: a reference, or a value if the job was done again

    @property
    def memory_before(self) -> Any:
        return self.took if self.before is None else self.before.memory

    @property
    def took_from_a_dead_actor(self) -> bool:
        return self.took is not self.memory_before


class _Chains:
    """Gives jobs to actors: those of one graph to the same actor, each with the memory before."""

    def __init__(self, actors: Iterator[Any], redetection: Redetection, first: First) -> None:
        self._actors = actors
        self._redetection = redetection
        self._first = first
        self._last: dict[str, _Begun] = {}

    def begin(self, job: ReplayJob) -> _Begun:
        chain, before, took = self._redetection.chain(job), None, None
        if chain is not None:
            before = self._last.get(chain)
            took = self._first(chain).memory if before is None else before.memory
        actor = next(self._actors) if before is None else before.actor
        outcome, memory = actor.detect.options(num_returns=2).remote(job, took)
        begun = _Begun(job, actor, before, took, outcome, memory)
        if chain is not None:
            self._last[chain] = begun
        return begun


class _Detector:
    def __init__(self, redetection: Redetection) -> None:
        self._redetection = redetection

    def detect(self, job: ReplayJob, memory: bytes | None) -> tuple[Any, bytes | None]:
        """Return the outcome of a job, and the memory after it."""
        relay = None if self._redetection.chain(job) is None else Relay(memory)
        return run_job(self._redetection, job, relay), None if relay is None else relay.memory


@contextmanager
def _connected(address: str | None, workers: int) -> Iterator[Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with needs_extra("ray", "ray"):
        import ray
    options: dict[str, Any] = {} if address else {"num_cpus": workers, "include_dashboard": False}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address or "local", log_to_driver=False, **options)
    except ConnectionError as error:
        raise WorkersLost(f"no Ray cluster answers at {address}: {error}") from error
    except (RuntimeError, ValueError) as error:
        raise BadSettings(f"cannot use Ray at {address}: {error}") from error
    with suppress(ValueError):  # in another thread than the main one, Ray leaves it alone
        signal.signal(signal.SIGTERM, on_sigterm)
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    if (cores := int(resources.get("CPU", 0))) < workers:
        numbers = {"cores": cores, "workers": workers}
        structlog.get_logger().warning("windows wait for cores: see --workers", **numbers)
    try:
        yield ray
    finally:
        ray.shutdown()
