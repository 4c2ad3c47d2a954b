"""Where a replay's work is done: in this process, or in a pool of processes on this machine.

An engine takes jobs as it has room for them and gives their outcomes in the same order. The third
one, Ray, is in `ray_engine`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import wait
from typing import TypeVar

from threadpoolctl import threadpool_limits

from stream_icd.errors import ModelDamaged, Overloaded
from stream_icd.pipeline.detect import DetectSettings
from stream_icd.pipeline.redetect import Job, Outcome, Redetection
from stream_icd.registry.shipped import open_model

Handle = TypeVar("Handle")

Outcomes = Iterator[tuple[Job, Outcome]]
Engine = Callable[[Iterable[Job]], Outcomes]

IN_HAND = 3
"""Jobs given out for each worker: one that it is at, and two that wait."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """One after the other, here."""

    redetection: Redetection

    def __call__(self, jobs: Iterable[Job]) -> Outcomes:
        for job in jobs:
            yield job, self.redetection(job)


@dataclass(frozen=True, slots=True)
class ProcessPool:
    """Worker processes on this machine, each of which opens the model once.

    They end with this process, even when it is killed.

    Raises:
        Overloaded: one of them was killed.

    Attributes:
        redetection: what is done; `model_name` is where a worker finds its model.
        workers: how many processes.
    """

    redetection: Redetection
    model_name: str
    workers: int

    def __call__(self, jobs: Iterable[Job]) -> Outcomes:
        # Not by fork: threads of ours may hold locks, and numba's do not survive it.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.workers, context, initializer=_live_no_longer_than_parent)
        arguments = self.model_name, self.redetection.version, self.redetection.settings

        def submit(job: Job) -> Future[Outcome]:
            return pool.submit(_work, job, *arguments)

        try:
            yield from in_order(jobs, submit, Future.result, self.workers * IN_HAND)
        except BrokenProcessPool as error:
            raise Overloaded(
                f"one of {self.workers} worker processes was ended from outside, as the system "
                "does when memory runs out: give fewer --workers; what was done stays done"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def in_order(
    jobs: Iterable[Job],
    submit: Callable[[Job], Handle],
    result: Callable[[Handle], Outcome],
    most: int,
) -> Outcomes:
    """Give out jobs, at most `most` at a time, and yield their outcomes in the jobs' order."""
    waiting: deque[tuple[Job, Handle]] = deque()
    for job in jobs:
        waiting.append((job, submit(job)))
        if len(waiting) >= most:
            first, handle = waiting.popleft()
            yield first, result(handle)
    for first, handle in waiting:
        yield first, result(handle)


def _work(job: Job, model_name: str, version: str, settings: DetectSettings) -> Outcome:
    redetection = _opened(model_name, settings)
    if redetection.version != version:
        raise ModelDamaged(f"model {model_name} was {version} and is now {redetection.version}")
    return redetection(job)


@lru_cache(maxsize=1)
def _opened(model_name: str, settings: DetectSettings) -> Redetection:
    threadpool_limits(settings.threads)
    return Redetection(open_model(model_name), settings)


def _live_no_longer_than_parent() -> None:
    """Leave Ctrl-C to the parent, and end when it does, also by `kill -9`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "only for a child process"

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
