"""Detection on a stream: a snapshot in, its communities out."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import perf_counter

import numpy as np
import structlog
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.bp.evidence import evidence_for
from stream_icd.communities import Communities, MemoryUse, kind_of_memory, revision_of
from stream_icd.detection import detect, finding, stage_ms
from stream_icd.errors import BadInput, BadMemory
from stream_icd.execution.budget import Allowance, sent_bytes
from stream_icd.execution.engines import Engine, InProcess
from stream_icd.execution.relay import Baton, First, LocalRelay, Relay, nothing
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.memory.detect import Remembered
from stream_icd.memory.restart import anew
from stream_icd.memory.strength import Moved
from stream_icd.messages.clock import utc_now
from stream_icd.messages.outcome import Outcome, Processed, Refused, Stage
from stream_icd.messages.outgoing import outgoing
from stream_icd.printable import printable
from stream_icd.quality.modularity import modularity
from stream_icd.quality.ncut import ncut
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, is_unordered
from stream_icd.workers.detect_settings import DetectSettings, has_memory, result_version
from stream_icd.workers.fit_check import FitCheck
from stream_icd.workers.memories import Memories
from stream_icd.workers.record_log import about, described
from stream_icd.workers.remembering import Remembering
from stream_icd.workers.step import Step
from stream_icd.workers.warm_up import first_messages

TOO_LARGE = "k_too_large"
"""Log event for a snapshot with fewer nodes than `--k`."""

MOST_WARNINGS = 1000
"""Maximum number of graphs that a warning is logged for."""


@dataclass(frozen=True, slots=True)
class Detected:
    """The communities of a snapshot, ready to be published.

    Attributes:
        message: the communities.
        n_communities: number of communities.
        milliseconds: duration of each stage.
        k_too_large: the requested number of communities, if the snapshot has fewer nodes.
        state: the memory after the snapshot; None if it changed nothing.
    """

    message: Message
    n_communities: int
    milliseconds: dict[str, float]
    k_too_large: int | None = None
    state: OutgoingRecord | None = None


@dataclass(frozen=True, slots=True)
class RecordDetection:
    """Processes one record of the snapshots topic, in any process.

    The same model, settings and record give the same communities in any process.
    """

    model: VersionedModel
    settings: DetectSettings
    clock: Callable[[], datetime] = utc_now
    fit_check: FitCheck = field(default_factory=FitCheck, compare=False)

    @property
    def version(self) -> str:
        """The model version that results are published under."""
        return result_version(self.model, self.settings)

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        """Return the outcome of the record; log lines meanwhile name the record."""
        with about(record, model=self.version):
            return self.outcome(record, relay)

    def chain(self, record: Record) -> str | None:
        """Return the graph, whose windows need each other's memory; None without memory."""
        if not has_memory(self.model, self.settings) or is_unordered(record.headers):
            return None
        return (record.key or b"").decode(errors="replace")

    def outcome(self, record: Record, relay: Relay | None = None) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none.

        Args:
            relay: gives the memory before the snapshot; None: detect without memory.
        """
        found = detected(
            lambda: _decoded(record, self.settings),
            self.model,
            self.settings,
            self.clock,
            place=f"{record.partition}@{record.offset}",
            fit_check=self.fit_check,
            relay=relay,
        )
        if isinstance(found, Refused):
            return found
        facts: dict[str, object] = {"communities": found.n_communities, "ms": found.milliseconds}
        if found.k_too_large is not None:
            facts[TOO_LARGE] = found.k_too_large
        published = outgoing(self.settings.topic, found.message)
        return Processed("detected", facts, (published,), found.state)

    def name(self, record: Record) -> str:
        """Return the record's name for error messages."""
        return printable(", ".join(f"{name} {value}" for name, value in described(record).items()))

    def allowance(self, record: Record) -> Allowance:
        """Return the resource limits for the record."""
        return self.settings.budget.allowance(sent_bytes(record, self.settings.reader.limits))

    def instead(self, baton: bytes) -> bytes:
        """Return the memory of a graph that starts anew, since this one cannot be used."""
        return anew(baton)

    def warm_up(self) -> None:
        """See `warm_up`."""
        warm_up(self.model, self.settings)


def _decoded(record: Record, settings: DetectSettings) -> Snapshot:
    return settings.reader.decoded(record, decode_snapshot)


def detected(
    snapshot: Callable[[], Snapshot],
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
    place: str = "",
    fit_check: FitCheck | None = None,
    relay: Relay | None = None,
) -> Detected | Refused:
    """Fetch a snapshot (timed as decoding) and find its communities.

    Args:
        place: `PARTITION@OFFSET` of the snapshot, if it was read from a topic.
        fit_check: warns if the model does not fit the graph; None: no check.
        relay: gives the memory before the snapshot; None: detect without memory.

    Raises:
        BadMemory: the memory before the snapshot cannot be read, or detection fails with it.
    """
    memory = None if relay is None else Remembering(relay, clock, settings.reader.limits)
    stage: Stage = "decode"
    try:
        started = perf_counter()
        fetched = snapshot()
        seconds = perf_counter() - started
        stage = "detect"
        found = detect_snapshot(fetched, model, settings, clock, fit_check, memory)
        times = {**found.milliseconds, "decode": found.milliseconds["decode"] + 1000 * seconds}
        found = replace(found, milliseconds=times, snapshot_place=place)
        message, state = encode_communities(found), None
        if memory is not None:
            state = memory.hand_on(settings.memory_topic, settings.group, found)
    except BadMemory:
        raise
    except Exception as error:
        if memory is not None and memory.is_used:
            raise BadMemory(f"detection with it fails: {type(error).__name__}: {error}") from error
        if isinstance(error, BadInput):
            return Refused(stage, error)
        raise
    too_large = found.k_given if (found.k_given or 0) > found.n_nodes else None
    return Detected(message, found.n_communities, times, too_large, state)


def warm_up(model: VersionedModel, settings: DetectSettings) -> None:
    """Detect small snapshots, so that all code compiled at first use is compiled now."""
    relay = LocalRelay() if has_memory(model, settings) else None
    for message in first_messages():
        outcome = detected(
            partial(decode_snapshot, message.key, message.value, message.headers),
            model,
            replace(settings, n_communities=None),
            relay=relay,
        )
        if isinstance(outcome, Refused):
            raise outcome.error


ModelHandle = Callable[[], VersionedModel]
"""Returns the model for detection. It is called at the start of each batch, so the model may
change between batches."""


class Detector(Step):
    """Finds the communities of each snapshot.

    Args:
        model: the current model.
        engine: detects several snapshots in parallel, with the model that the engine was opened
            with; None: detect sequentially in this process, without resource limits.
        memories: the memory of each graph; None: detect each snapshot alone.
        room: returns the maximum size of a message of the memory topic.
    """

    stages = ("decode", "detect")

    def __init__(
        self,
        model: ModelHandle,
        settings: DetectSettings,
        engine: Engine[Record, Outcome] | None = None,
        memories: Memories | None = None,
        room: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._model = model
        self._settings = settings if memories is not None else replace(settings, memory="off")
        self._engine = engine
        self._memories = memories
        self._room = room
        self._small_graphs: set[bytes | None] = set()
        self._fit_check = FitCheck()
        self._detection = RecordDetection(model(), self._settings, fit_check=self._fit_check)
        self.ahead = engine is not None

    @property
    def context(self) -> dict[str, str]:
        """The model version that results are published under."""
        return {"model": self._detection.version}

    def assigned(self, partitions: Collection[int]) -> None:
        """Read the memory of the graphs in these partitions, before it is needed."""
        if self._memories is not None:
            self._memories.assigned(partitions)

    def begin(self, records: Sequence[Record]) -> None:
        """Make the memory of all graphs available, and take the current model."""
        if self._memories is not None:
            self._memories.begin(records)
        self._detection = RecordDetection(self._model(), self._settings, fit_check=self._fit_check)

    def process(self, record: Record) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none."""
        return self._detection.outcome(record)

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        """Yield each record and its outcome, in the same order."""
        engine = InProcess(self._detection) if self._engine is None else self._engine
        for record, outcome in engine(records, self._first_memories()):
            self._warn_of_k(record, outcome)
            yield record, outcome

    def _first_memories(self) -> First:
        if self._memories is None:
            return nothing
        return _FirstMemories(self._memories, self._room())

    def state_headers(self, record: Record) -> Headers:
        """Return the headers of the message that the graph's memory was read from."""
        graph = (record.key or b"").decode(errors="replace")
        return () if self._memories is None else self._memories.headers(graph)

    def remember(self, record: Record, state: OutgoingRecord) -> None:
        """Keep the memory that is published with the record's outcome."""
        assert self._memories is not None, "there is no state without memory"
        graph = (record.key or b"").decode(errors="replace")
        self._memories.put(graph, record.partition, state.value or b"")

    def _warn_of_k(self, record: Record, outcome: Outcome) -> None:
        """Log once for each graph that it has fewer nodes than the requested communities."""
        if not isinstance(outcome, Processed) or TOO_LARGE not in outcome.facts:
            return
        if record.key not in self._small_graphs and len(self._small_graphs) < MOST_WARNINGS:
            self._small_graphs.add(record.key)
            with about(record):
                structlog.get_logger().warning(
                    "--k is above the number of nodes of this graph's snapshot: each node becomes "
                    "its own community (logged once per graph)",
                    k=outcome.facts[TOO_LARGE],
                )


@dataclass(frozen=True, slots=True)
class _FirstMemories:
    """The memory that the first window of each graph in a batch takes."""

    memories: Memories
    most_bytes: float

    def __call__(self, graph: str) -> Baton:
        return self.memories.get(graph)


def detect_snapshot(
    snapshot: Snapshot,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
    fit_check: FitCheck | None = None,
    memory: Remembering | None = None,
) -> Communities:
    """Return the communities of one snapshot (paper, algorithm 4), with their quality.

    K is the snapshot's own, else the settings' (at most the number of nodes), else estimated from
    the graph.

    Args:
        fit_check: warns if the model does not fit the graph; None: no check.
        memory: of earlier windows; None: detect without memory.
    """
    started = perf_counter()
    adjacency = snapshot.adjacency()
    prepared = perf_counter() - started
    k = snapshot.n_communities or settings.n_communities
    at_most = None if k is None else min(k, snapshot.n_nodes)
    if memory is not None:
        spent: dict[str, float] = {}
        find = finding(
            settings.method,
            model.model,
            seed=settings.seed,
            threads=settings.threads,
            spent=spent,
        )
        remembered, use = memory.detect(
            snapshot, adjacency, model.model, at_most, settings.horizon, find, settings.seed
        )
        found = remembered_labels(remembered, use, spent)
    else:
        detection = detect(
            adjacency,
            model.model,
            at_most,
            method=settings.method,
            seed=settings.seed,
            threads=settings.threads,
        )
        found = Labelling(detection.communities, detection.milliseconds)
    if fit_check is not None and settings.method == "bp":
        fit_check.check(snapshot.graph, model, adjacency, found.labels, k, settings.seed)
    found.milliseconds["decode"] = 1000 * prepared
    return communities_with(found, snapshot, adjacency, model, settings, clock)


@dataclass(frozen=True, slots=True, eq=False)
class Labelling:
    """The labels of one snapshot, and how they were found; see `Communities`."""

    labels: NDArray[np.int32]
    milliseconds: dict[str, float]
    community_ids: NDArray[np.int64] | None = None
    replaced: NDArray[np.int64] | None = None
    memory: MemoryUse | None = None
    horizon: float | None = None
    predicted_bits: float | None = None
    moved: Moved | None = None


def remembered_labels(
    remembered: Remembered, use: MemoryUse, spent: Mapping[str, float] | None = None
) -> Labelling:
    """Return the labels that were found with memory; see `stage_ms`."""
    return Labelling(
        remembered.communities,
        stage_ms(remembered.milliseconds, spent),
        remembered.community_ids,
        remembered.replaced,
        use,
        remembered.horizon,
        remembered.predicted_bits,
        remembered.moved,
    )


def communities_with(
    found: Labelling,
    snapshot: Snapshot,
    adjacency: csr_array,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
) -> Communities:
    """Return the communities with these labels, and their quality."""
    k = snapshot.n_communities or settings.n_communities
    evidence = evidence_for(adjacency, found.labels, settings.seed)
    return Communities(
        graph=snapshot.graph,
        snapshot_id=snapshot.id,
        window=snapshot.window,
        nodes=snapshot.nodes,
        labels=found.labels,
        n_edges=snapshot.n_edges,
        model=result_version(model, settings),
        modularity=modularity(adjacency, found.labels),
        ncut=ncut(adjacency, found.labels),
        milliseconds=found.milliseconds,
        detected_at=clock(),
        revision=revision_of(
            snapshot.content, k, settings.seed, kind_of_memory(found.memory), settings.horizon
        ),
        content=snapshot.content,
        k_given=k,
        seed=settings.seed,
        evidence=evidence.strength,
        bits_saved=evidence.bits_saved,
        community_ids=found.community_ids,
        replaced=found.replaced,
        memory=found.memory,
        horizon=found.horizon,
        predicted_bits=found.predicted_bits,
        moved=None if found.moved is None else found.moved.pairs,
        moved_bits=None if found.moved is None else found.moved.bits,
    )
