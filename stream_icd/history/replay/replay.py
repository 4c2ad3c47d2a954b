"""Replays the past: detects snapshots again, stores the results, resumes after an interruption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import NamedTuple

import structlog

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings, TopicMissing
from stream_icd.core.store.store import Store
from stream_icd.history.archive import Archive, Selection
from stream_icd.history.files import SnapshotName
from stream_icd.history.replay.redetect import Redetection, ReplayJob, ReplayOutcome
from stream_icd.kafka.messages.claims import ClaimCheck
from stream_icd.kafka.messages.pacing import Tempo, paced
from stream_icd.kafka.messages.records import Refused, outgoing
from stream_icd.kafka.publisher import Publisher
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, check_topic_for, create_topics, messages_topic
from stream_icd.streaming.execution.work import Engine, First, Relay
from stream_icd.streaming.subscribers.seen_results import result_of
from stream_icd.streaming.subscribers.subscribe import subscribe
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.limits import Limits
from stream_icd.wire.message import Message

_StoredName = tuple[str, str, str]
"""Graph, snapshot id and revision of a result."""

_Keep = Callable[[Message], object]


@dataclass(frozen=True, slots=True)
class HistoryResults:
    """Results in an archive, where each is durable as soon as it is stored."""

    store: Store

    @property
    def name(self) -> str:
        return self.store.place

    def kept(self, version: str) -> set[_StoredName]:
        """Return the existing results of this model version."""
        chosen = Selection("communities", model=version, revisions="all")
        archived = Archive(self.store).windows(chosen)
        return {(*window.name, window.identity.revision) for window in archived}

    def read(self, of: Container[SnapshotName]) -> Iterator[Communities]:
        """Yield the results of these snapshots by their windows, the newest revision last."""
        archive, limits = Archive(self.store), Limits()
        for window in archive.windows(Selection("communities", revisions="all")):
            if window.name in of:
                message = archive.read_message(window)
                yield decode_communities(message.key, message.value, message.headers, limits)

    @contextmanager
    def writing(self) -> Iterator[_Keep]:
        """Give a function that stores a result; all are durable at the end of the block."""
        archive = Archive(self.store)

        def keep(message: Message) -> None:
            detected = datetime.fromisoformat(dict(message.headers)["icd_detected_at"].decode())
            # The result of a later replay is the newest.
            archive.add("communities", message, (round(detected.timestamp() * 1000), 0))

        yield keep


@dataclass(frozen=True, slots=True)
class TopicResults:
    """Results in a topic, which is created with these partitions on the first write."""

    settings: KafkaSettings
    topic: str
    partitions: int = 1

    @staticmethod
    def check(topic: str, *, into_live: bool) -> None:
        """Refuse a topic for other messages, and the live topic unless its use was allowed."""
        check_topic_for(topic, COMMUNITIES)
        if topic == COMMUNITIES and not into_live:
            raise BadSettings(
                f"{topic} is the live topic: its subscribers would take past results for new ones. "
                "Give another --out-topic, or confirm with --into-live"
            )

    @property
    def name(self) -> str:
        return f"topic {self.topic}"

    def kept(self, version: str) -> set[_StoredName]:
        """Return the existing results, from record headers; none if the topic does not exist."""
        names: set[_StoredName] = set()
        try:
            with open_reader(self.settings, self.topic, until="end") as records:
                for record in records:
                    (graph, snapshot_id, model), revision, _ = result_of(record)
                    if model == version.encode():
                        names.add((_text(graph), _text(snapshot_id), _text(revision)))
        except TopicMissing:
            return set()
        return names

    def read(self, of: Container[SnapshotName]) -> Iterator[Communities]:
        """Yield the results of these snapshots in the order of the topic, all revisions."""
        results = subscribe(
            start="beginning",
            until="end",
            revisions="all",
            settings=self.settings,
            topic=self.topic,
        )
        return (result for result in results if (result.graph, result.snapshot_id) in of)

    @contextmanager
    def writing(self) -> Iterator[_Keep]:
        """Write one record per result; all are acknowledged at the end of the block."""
        # Only now: a dry run makes no topic.
        create_topics(self.settings, [messages_topic(self.topic, self.partitions)])
        claim_check = ClaimCheck(self.settings)
        with Publisher(self.settings) as publisher:

            def keep(message: Message) -> None:
                publisher.send(claim_check(outgoing(self.topic, message)))

            yield keep


Results = HistoryResults | TopicResults


def _text(name: bytes) -> str:
    return name.decode(errors="replace")


@dataclass(slots=True)
class ReplayPlan:
    """The work of a replay, as far as it is known beforehand: newest revisions only."""

    kept: set[_StoredName]  # the results that already exist
    redetection: Redetection
    # The revision of each snapshot's result, and of those that are detected for their memory.
    newest: dict[SnapshotName, str] = field(default_factory=dict)
    earlier: dict[SnapshotName, str] = field(default_factory=dict)
    graphs: Counter[str] = field(default_factory=Counter)  # number of snapshots to detect
    already: int = 0  # how many results already exist, and are skipped
    first: datetime | None = None  # earliest window end of the snapshots to detect
    last: datetime | None = None  # latest window end
    gone: int = 0  # snapshots that were there when it was made, and not among the jobs to do

    @classmethod
    def of(
        cls, jobs: Iterable[ReplayJob], results: Results, redetection: Redetection
    ) -> ReplayPlan:
        """Compare jobs with the existing results; of a snapshot's jobs, the last is the newest."""
        plan, ends = cls(results.kept(redetection.version), redetection), {}
        for job in jobs:
            name = job.graph, job.snapshot_id
            if job.for_memory:
                plan.earlier[name] = redetection.revision(job)
                continue
            plan.newest[name] = redetection.revision(job)
            ends[name] = job.window_end
        to_detect = [name for name in ends if (*name, plan.newest[name]) not in plan.kept]
        plan.graphs.update(graph for graph, _ in to_detect)
        plan.already = len(ends) - len(to_detect)
        plan.first = min((ends[name] for name in to_detect), default=None)
        plan.last = max((ends[name] for name in to_detect), default=None)
        return plan

    @property
    def total(self) -> int:
        return self.graphs.total()

    def wanted(self, jobs: Iterable[ReplayJob]) -> Iterator[ReplayJob]:
        """Yield the jobs to run, each once: those that it `publishes`, and those these need.

        With memory, these are the windows before, and to smooth, all windows of their graphs.
        """
        work, done, n_left = self.redetection, set[SnapshotName](), self.graphs.copy()
        for job in jobs:
            name, revision = (job.graph, job.snapshot_id), work.revision(job)
            if self.newest.get(name, self.earlier.get(name)) != revision or name in done:
                continue
            done.add(name)
            if self.publishes(job):
                n_left[job.graph] -= 1
                yield job
            elif (work.remembers and n_left[job.graph]) or (work.smooth and self.graphs[job.graph]):
                yield job
        self.gone = len(self.newest.keys() | self.earlier.keys()) - len(done)

    def publishes(self, job: ReplayJob) -> bool:
        name = job.graph, job.snapshot_id
        return name in self.newest and (*name, self.redetection.revision(job)) not in self.kept

    def seconds(self, tempo: Tempo) -> float:
        """Return the minimum duration at this tempo."""
        if self.first is None or self.last is None:
            return 0.0
        return tempo.due_s(self.total - 1, (self.last - self.first).total_seconds())


class _Replayed(NamedTuple):
    """How many results were stored, and how many snapshots were refused."""

    snapshots: int
    refused: int


def replay(
    jobs: Iterable[ReplayJob],
    plan: ReplayPlan,
    engine: Engine[ReplayJob, ReplayOutcome],
    results: Results,
    tempo: Tempo,
    monotonic: Callable[[], float],
    stop: Event,
    on_outcome: Callable[[ReplayJob], None] = lambda _: None,
    first: First = Relay.empty,
) -> _Replayed:
    """Detect each snapshot without a result, and store the results, in the jobs' order.

    If it ends early, stored results remain; the next replay detects the rest. Calls `on_outcome`
    after each job, and `first` for the memory of a graph before its first job.

    Raises:
        BrokerError, StoreError, HistoryDamaged: see these classes.
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
            # Before anything is stored: on a stop, the rest is left to the next replay.
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
    return _Replayed(n_snapshots, n_refused)
