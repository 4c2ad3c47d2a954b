"""Jobs that wait for a process, and which of them is next."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from stream_icd.execution.relay import Link

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class Waiting(Generic[Job, Result]):
    """A job that waits for a process.

    Attributes:
        link: its place in its chain; None: it depends on no other job.
        future: its result.
    """

    job: Job
    link: Link | None = None
    future: Future[Result] = field(default_factory=Future)


def next_job(waiting: list[Waiting[Job, Result]]) -> Waiting[Job, Result]:
    """Remove the next job and return it.

    A job that can run at once comes first; of these, one of the chain with most jobs waiting, so
    that chains end together; of these, the first one. If no job can run at once, the first one
    begins what it can do before it needs the job before it, which is in progress.
    """
    left = Counter(one.link.chain for one in waiting if one.link is not None)

    def urgency(at: int) -> tuple[bool, int, int]:
        link = waiting[at].link
        if link is None:
            return True, 1, -at
        return link.is_ready, left[link.chain] if link.is_ready else 0, -at

    return waiting.pop(max(range(len(waiting)), key=urgency))
