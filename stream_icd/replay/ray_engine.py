"""Replays on a Ray cluster: actors hold the model and process windows (Ray Core)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from stream_icd.errors import Overloaded
from stream_icd.execution.engines import IN_HAND, in_order
from stream_icd.execution.processes import ATTEMPTS
from stream_icd.extras import needs_extra
from stream_icd.replay.redetect import Job, Outcome, Redetection


@dataclass(frozen=True, slots=True)
class RayActors:
    """Actors on a cluster, each with one core and a copy of the model.

    Each actor reads its windows itself: the archive's URI must be valid on all machines. An actor
    that dies is restarted, and its windows are detected again, with the same results.

    Attributes:
        redetection: processes the jobs.
        workers: number of actors.
        address: address of the cluster, such as `auto` or `ray://head:10001`; None starts one here.

    Raises:
        MissingExtra: Ray is not installed; the message says how to install it.
        Overloaded: actors died repeatedly on one window; the message names it.
    """

    redetection: Redetection
    workers: int
    address: str | None = None

    def __call__(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Outcome]]:
        with _connected(self.address, self.workers) as ray:
            detector, model = ray.remote(_Detector), ray.put(self.redetection)
            actor = detector.options(num_cpus=1, max_restarts=-1, max_task_retries=ATTEMPTS - 2)
            actors = cycle([actor.remote(model) for _ in range(self.workers)])
            # Needs no free core: the other actors use all cores.
            alone = partial(detector.options(num_cpus=0).remote, model)
            yield from in_order(
                jobs,
                lambda job: (job, next(actors).detect.remote(job)),
                lambda given: self._outcome(ray, alone, *given),
                self.workers * IN_HAND,
            )

    def _outcome(self, ray: Any, alone: Callable[[], Any], job: Job, reference: Any) -> Any:
        died = (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError)
        with suppress(*died):
            return ray.get(reference)
        # When an actor dies, all its windows fail, whichever caused it: the last attempt is in an
        # actor that has no other window.
        actor = alone()
        try:
            return ray.get(actor.detect.remote(job))
        except died as error:
            raise Overloaded(
                f"{self.redetection.name(job)}: {ATTEMPTS} actors died while they worked on it, "
                "as they do when memory runs out: give more memory, or fewer than "
                f"{self.workers} workers. Completed work is kept"
            ) from error


class _Detector:
    """The actor."""

    def __init__(self, redetection: Redetection) -> None:
        self._redetection = redetection

    def detect(self, job: Job) -> Any:
        """Return the outcome of a job."""
        return self._redetection(job)


@contextmanager
def _connected(address: str | None, workers: int) -> Iterator[Any]:
    # Disable Ray's usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with needs_extra("ray", "ray"):
        import ray
    here: dict[str, Any] = (
        {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    )
    ray.init(address=address or "local", log_to_driver=False, **here)
    try:
        yield ray
    finally:
        ray.shutdown()
