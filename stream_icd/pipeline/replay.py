"""Replaying the past: detect its snapshots again, keep the results, go on where one was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from stream_icd.pipeline.engines import Engine
from stream_icd.pipeline.pacing import Tempo, paced
from stream_icd.pipeline.redetect import Job, Outcome
from stream_icd.pipeline.replay_results import Name, Results
from stream_icd.pipeline.step import Refused
from stream_icd.sources.source import Stop


@dataclass(slots=True)
class Plan:
    """What a replay would do, as far as it can be known beforehand.

    Attributes:
        kept: the snapshots whose results are there already.
        graphs: how many snapshots of each graph there are to detect.
        already: how many are there already, and are passed over.
        first, last: earliest and latest end of a window, of those to detect.
        names: all of them, those that are passed over too.
    """

    kept: set[Name]
    graphs: Counter[str] = field(default_factory=Counter)
    already: int = 0
    first: datetime | None = None
    last: datetime | None = None
    names: set[Name] = field(default_factory=set)

    @property
    def total(self) -> int:
        """How many snapshots there are to detect."""
        return self.graphs.total()

    def add(self, job: Job) -> None:
        """Take a snapshot into account; one that comes again does not count again."""
        if (job.graph, job.snapshot_id) in self.names:
            return
        self.names.add((job.graph, job.snapshot_id))
        if self.holds(job):
            self.already += 1
            return
        self.graphs[job.graph] += 1
        self.first = min(self.first or job.window_end, job.window_end)
        self.last = max(self.last or job.window_end, job.window_end)

    def holds(self, job: Job) -> bool:
        """Whether the result of this snapshot is there already."""
        return (job.graph, job.snapshot_id) in self.kept

    def seconds(self, tempo: Tempo) -> float:
        """How long the tempo makes it take, at the least."""
        if self.first is None or self.last is None:
            return 0.0
        return tempo.due_s(self.total - 1, (self.last - self.first).total_seconds())


def make_plan(jobs: Iterable[Job], results: Results, version: str) -> Plan:
    """Look at all jobs, and at the results that are there; nothing is written."""
    plan = Plan(results.kept(version))
    for job in jobs:
        plan.add(job)
    return plan


@dataclass(frozen=True, slots=True)
class Replayed:
    """What was detected and kept, and what could not be."""

    snapshots: int
    refused: int


def replay(
    jobs: Iterable[Job],
    plan: Plan,
    engine: Engine[Job, Outcome],
    results: Results,
    tempo: Tempo,
    monotonic: Callable[[], float],
    stop: Stop,
    on_outcome: Callable[[Job], None] = lambda _: None,
) -> Replayed:
    """Detect each snapshot whose result is not there, and keep the results, in the jobs' order.

    Killed at any moment, what was kept stays; the next replay detects the rest.

    Args:
        stop: looked at after each result.
        on_outcome: called with each that is done, for a progress bar.

    Raises:
        BrokerError, StoreError, HistoryDamaged: as their texts say; what was kept stays.
    """
    counts = Counter[bool]()
    outcomes = engine(_once(job for job in jobs if not plan.holds(job)))
    due = paced(outcomes, lambda pair: pair[0].window_end, tempo, monotonic, stop.wait)
    with results.writing() as keep:
        for job, outcome in due:
            if stop.is_set():
                break
            refused = isinstance(outcome, Refused)
            if isinstance(outcome, Refused):
                log = structlog.get_logger().bind(graph=job.graph, snapshot=job.snapshot_id)
                log.warning("not detected", stage=outcome.stage, reason=outcome.reason)
            else:
                keep(outcome)
            counts[refused] += 1
            on_outcome(job)
    return Replayed(snapshots=counts[False], refused=counts[True])


def _once(jobs: Iterable[Job]) -> Iterator[Job]:
    """Each snapshot once: a topic may hold one twice."""
    seen: set[Name] = set()
    for job in jobs:
        name = job.graph, job.snapshot_id
        if name not in seen:
            seen.add(name)
            yield job
