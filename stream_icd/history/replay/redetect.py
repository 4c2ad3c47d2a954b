"""Detects past snapshots again: the work of one worker, on a snapshot or on all of a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache, partial
from time import perf_counter

from stream_icd.core.communities import Communities, MemoryKind, revision_of
from stream_icd.core.errors import BadInput, BadSnapshot
from stream_icd.core.headers import Headers
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import read_snapshot
from stream_icd.history.files import ArchivedWindow
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Refused
from stream_icd.kafka.record import Record
from stream_icd.methods.memory.encoding import decode_memory
from stream_icd.methods.memory.memory import Memory
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.streaming.detection.detect import stage_ms
from stream_icd.streaming.detection.record import Detection, warn_of_k
from stream_icd.streaming.detection.snapshot import communities_with
from stream_icd.streaming.execution.budget import Allowance, sent_bytes
from stream_icd.streaming.execution.work import Engine, First, Relay
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import EVENT_TYPES, EventHeaders, Message, graph_of, refusing
from stream_icd.wire.snapshots import decode_snapshot, is_unordered

_SENT_BYTES_A_ROW = 4
"""Estimated bytes per edge in a message of integer ids; compressed, it is 1 to 4 bytes. An archive
does not store the sizes of messages."""


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot to detect again; can be sent to another process."""

    graph: str
    snapshot_id: str
    window_end: datetime
    sent_bytes: int  # of the snapshot's message, or an estimate
    headers: Headers  # those of the message
    snapshot: Callable[[], Snapshot]  # fetches it where it is detected; raises `BadInput`
    for_memory: bool = False  # it is detected only because later windows need the memory of it
    era: int = 0  # how often the graph had started anew; memory is handed on within an era


def archived_job(
    uri: str,
    noted: ArchivedWindow,
    limits: Limits = DEFAULT_LIMITS,
    *,
    for_memory: bool = False,
    era: int = 0,
) -> Job:
    """Return an archived snapshot as a job; the worker reads it itself."""
    return Job(
        graph=noted.partition.graph,
        snapshot_id=noted.identity.snapshot_id,
        window_end=noted.window.end,
        sent_bytes=_SENT_BYTES_A_ROW * noted.rows,
        headers=noted.headers,
        snapshot=partial(_read, uri, noted, limits),
        for_memory=for_memory,
        era=era,
    )


_opened_store = lru_cache(maxsize=8)(open_store)


def _read(uri: str, noted: ArchivedWindow, limits: Limits) -> Snapshot:
    return read_snapshot(_opened_store(uri), noted, limits)


def record_job(record: Record, reader: MessageReader, *, for_memory: bool = False) -> Job:
    """Return a record of the snapshots topic as a job; bad headers raise `BadSnapshot`."""
    with refusing(BadSnapshot, "the headers cannot be read"):
        limits = reader.limits
        fields = EventHeaders(record.headers, EVENT_TYPES["snapshots"], limits, BadSnapshot)
        return Job(
            graph=graph_of(record.key, limits, BadSnapshot),
            snapshot_id=fields.text("ce_id"),
            window_end=fields.window().end,
            sent_bytes=sent_bytes(record, limits),
            headers=record.headers,
            snapshot=partial(reader.decoded, record, decode_snapshot),
            for_memory=for_memory,
        )


Outcome = Message | Refused


@dataclass(frozen=True, slots=True)
class Redetection(Detection):
    """The work on a job: it returns the communities as a message, or why there are none."""

    smooth: bool = False  # results are made by `Smoothing`, from all windows of a graph
    small_graphs: set[str] = field(default_factory=set, compare=False)  # see `warn_of_k`

    def revision(self, job: Job) -> str:
        """Return the revision that the result of a job will have, if possible by its headers."""
        headers = dict(job.headers)
        content = headers.get("icd_content", b"").decode(errors="replace")
        given = self.settings.n_communities
        with suppress(BadInput, ValueError):  # detection refuses it
            given = int(headers["icd_k"]) if "icd_k" in headers else given
            content = content or job.snapshot().content
        kind: MemoryKind = "none" if self.chain(job) is None else "memory"
        kind = "smoothed" if self.smooth else kind
        return revision_of(content, given, self.settings.seed, kind, self.settings.horizon)

    def chain(self, job: Job) -> str | None:
        """Return the graph's era, whose windows need each other's memory; None without memory."""
        if not self.remembers or is_unordered(job.headers):
            return None
        return chain_name(job.graph, job.era)

    def __call__(self, job: Job, relay: Relay | None = None) -> Outcome:
        outcome = self.detected(job.snapshot, relay)
        if isinstance(outcome, Refused):
            return outcome
        _check_k(outcome.communities, self.small_graphs)
        return outcome.message

    def name(self, job: Job) -> str:
        return printable(f"graph {job.graph}, snapshot {job.snapshot_id}")

    def allowance(self, job: Job) -> Allowance:
        return self.settings.budget.allowance(job.sent_bytes)


def _check_k(communities: Communities, small_graphs: set[str]) -> None:
    if communities.k_given is not None and communities.k_given > communities.n_nodes:
        warn_of_k(communities.graph, communities.k_given, small_graphs)


def chain_name(graph: str, era: int = 0) -> str:
    """Return the name of the chain that the windows of an era of a graph are."""
    return f"{graph}\0{era}" if era else graph


_PASSES = 2
"""To smooth, each window is detected twice: forward in time, and backward."""

GraphJobs = tuple[Job, ...]
"""All windows of an era of a graph, in order."""


@dataclass(frozen=True, slots=True)
class Smoothing(Detection):
    """The work on a graph: it returns the outcome of each window."""

    def __call__(self, graph: GraphJobs, relay: Relay | None = None) -> tuple[Outcome, ...]:
        encoded = None if relay is None else relay.memory
        memory = None if encoded is None else decode_memory(encoded)
        snapshots: dict[int, Snapshot] = {}
        outcomes: dict[int, Outcome] = {}
        for at, job in enumerate(graph):
            try:
                snapshots[at] = _after(job.snapshot(), snapshots)
            except BadInput as error:
                outcomes[at] = Refused("decode", error)
        try:
            smoothed = self._smoothed(list(snapshots.values()), memory)
            outcomes |= dict(zip(snapshots, smoothed, strict=True))
        except BadInput as error:
            outcomes |= dict.fromkeys(snapshots, Refused("detect", error))
        return tuple(outcome for _, outcome in sorted(outcomes.items()))

    def _smoothed(self, windows: Sequence[Snapshot], memory: Memory | None) -> Iterator[Outcome]:
        settings = self.settings
        given = (window.n_communities or settings.n_communities for window in windows)
        most = (window.n_nodes for window in windows)
        smoothed = detect_smoothed(
            windows,
            self.model.model,
            memory,
            [None if k is None else min(k, n) for k, n in zip(given, most, strict=True)],
            horizon=settings.horizon,
            seed=settings.seed,
        )
        small_graphs: set[str] = set()
        for snapshot, result in zip(windows, smoothed, strict=True):
            started = perf_counter()
            adjacency = snapshot.adjacency()
            decode_ms = 1000 * (perf_counter() - started)
            communities = communities_with(
                result.communities,
                {**stage_ms(result.milliseconds), "decode": decode_ms},
                snapshot,
                adjacency,
                self.model,
                settings,
                remembered=(result, "smoothed"),
            )
            _check_k(communities, small_graphs)
            yield encode_communities(communities)

    def chain(self, graph: GraphJobs) -> str:
        """Return the era, whose first window needs the memory before it."""
        return chain_name(graph[0].graph, graph[0].era)

    def name(self, graph: GraphJobs) -> str:
        return printable(f"graph {graph[0].graph}, {len(graph)} windows")

    def allowance(self, graph: GraphJobs) -> Allowance:
        """Return the resource limits for the graph: those of its windows together."""
        budget, sent = self.settings.budget, [job.sent_bytes for job in graph]
        seconds = _PASSES * sum(budget.allowance(of_job).seconds for of_job in sent)
        return replace(budget.allowance(sum(sent)), seconds=seconds)


@dataclass(frozen=True, slots=True)
class SmoothedGraphs:
    """An engine that detects all windows of a graph together, and yields graph by graph."""

    engine: Engine[GraphJobs, tuple[Outcome, ...] | Refused]

    def __call__(
        self, jobs: Iterable[Job], first: First = First(), /
    ) -> Iterator[tuple[Job, Outcome]]:
        chains: dict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            chains[chain_name(job.graph, job.era)].append(job)
        for graph, outcomes in self.engine(map(tuple, chains.values()), first):
            if isinstance(outcomes, Refused):
                yield from ((job, outcomes) for job in graph)
            else:
                yield from zip(graph, outcomes, strict=True)


def _after(snapshot: Snapshot, before: dict[int, Snapshot]) -> Snapshot:
    """Return a window if it is after those before it; else raise `BadInput`."""
    last = next(reversed(before.values()), None)
    if last is not None and snapshot.window.end <= last.window.end:
        raise BadInput(
            f"its window does not end after that of {last.id}: with --smooth, windows of a graph "
            "follow each other. Replay it without --smooth"
        )
    return snapshot
