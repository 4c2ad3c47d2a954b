"""Replays the past: detects snapshots again, stores the results, resumes after an interruption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event

import structlog

from stream_icd.detection.record import has_memory
from stream_icd.execution.work import Engine, First
from stream_icd.messages.records import Refused
from stream_icd.replay.pacing import Tempo, paced
from stream_icd.replay.redetect import Job, Outcome, Redetection
from stream_icd.replay.results import Kept, Name, Results


@dataclass(slots=True)
class Plan:
    """The work of a replay, as far as it is known beforehand.

    Attributes:
        kept: the results that already exist.
        revision: returns the revision that the result of a job will have.
        remembers: whether a window needs the memory of the one before.
        smooths: whether a window needs all others of its graph.
        newest: the newest revision of each snapshot's result; older ones are not detected.
        earlier: the same of snapshots that are detected for their memory only.
        graphs: the number of snapshots to detect, by graph.
        already: how many results already exist, and are skipped.
        first, last: earliest and latest window end of the snapshots to detect.
    """

    kept: set[Kept]
    revision: Callable[[Job], str]
    remembers: bool = False
    smooths: bool = False
    newest: dict[Name, str] = field(default_factory=dict)
    earlier: dict[Name, str] = field(default_factory=dict)
    graphs: Counter[str] = field(default_factory=Counter)
    already: int = 0
    first: datetime | None = None
    last: datetime | None = None

    @property
    def total(self) -> int:
        """Number of snapshots to detect."""
        return self.graphs.total()

    def wanted(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield the jobs to run, each once: the newest revisions without a result.

        With memory, also the windows before them, and to smooth, all windows of their graphs;
        `publishes` tells the two apart.
        """
        seen: set[Name] = set()
        left = self.graphs.copy()
        for job in jobs:
            name, revision = (job.graph, job.snapshot_id), self.revision(job)
            if self.newest.get(name, self.earlier.get(name)) != revision or name in seen:
                continue
            seen.add(name)
            if self.publishes(job):
                left[job.graph] -= 1
                yield job
            elif (self.remembers and left[job.graph]) or (self.smooths and self.graphs[job.graph]):
                yield job

    def publishes(self, job: Job) -> bool:
        """Whether the result of a job is to be stored."""
        kept = (job.graph, job.snapshot_id, self.revision(job)) in self.kept
        return not (job.for_memory or kept)

    def seconds(self, tempo: Tempo) -> float:
        """Return the minimum duration at this tempo."""
        if self.first is None or self.last is None:
            return 0.0
        return tempo.due_s(self.total - 1, (self.last - self.first).total_seconds())


def make_plan(jobs: Iterable[Job], results: Results, redetection: Redetection) -> Plan:
    """Compare all jobs with the existing results; nothing is written.

    If a snapshot occurs more than once, the last one is the newest.
    """
    remembers = has_memory(redetection.model, redetection.settings)
    kept = results.kept(redetection.version)
    plan, ends = Plan(kept, redetection.revision, remembers, redetection.smooth), {}
    for job in jobs:
        name = job.graph, job.snapshot_id
        if job.for_memory:
            plan.earlier[name] = plan.revision(job)
            continue
        plan.newest[name] = plan.revision(job)
        ends[name] = job.window_end
    to_detect = [name for name in ends if (*name, plan.newest[name]) not in plan.kept]
    plan.graphs.update(graph for graph, _ in to_detect)
    plan.already = len(ends) - len(to_detect)
    plan.first = min((ends[name] for name in to_detect), default=None)
    plan.last = max((ends[name] for name in to_detect), default=None)
    return plan


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many results were stored, and how many snapshots were refused."""

    snapshots: int
    refused: int


def replay(
    jobs: Iterable[Job],
    plan: Plan,
    engine: Engine[Job, Outcome],
    results: Results,
    tempo: Tempo,
    monotonic: Callable[[], float],
    stop: Event,
    on_outcome: Callable[[Job], None] = lambda _: None,
    first: First = First(),
) -> Replayed:
    """Detect each snapshot without a result, and store the results, in the jobs' order.

    If it is killed, stored results remain; the next replay detects the rest. With memory, it
    detects earlier snapshots again, since the rest needs the memory of them.

    Args:
        on_outcome: called after each job, for a progress bar.
        first: returns the memory of a graph before its first job.

    Raises:
        BrokerError, StoreError, HistoryDamaged: see these classes; stored results remain.
    """
    n_snapshots = n_refused = 0
    due = paced(
        engine(plan.wanted(jobs), first),
        lambda pair: pair[0].window_end if plan.publishes(pair[0]) else None,
        tempo,
        monotonic,
        stop.wait,
    )
    with results.writing() as keep:
        for job, outcome in due:
            if stop.is_set():
                break
            if not plan.publishes(job):
                continue
            if isinstance(outcome, Refused):
                log = structlog.get_logger().bind(graph=job.graph, snapshot=job.snapshot_id)
                log.warning("not detected", stage=outcome.stage, reason=outcome.reason)
                n_refused += 1
            else:
                keep(outcome)
                n_snapshots += 1
            on_outcome(job)
    return Replayed(n_snapshots, n_refused)
