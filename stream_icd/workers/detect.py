"""Detection on a stream: a snapshot in, its communities out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from time import perf_counter

import structlog

from stream_icd.bp.evidence import evidence_for
from stream_icd.communities import Communities, revision_of
from stream_icd.detection import Method, detect
from stream_icd.errors import BadInput, BadSettings
from stream_icd.execution.budget import Allowance, Budget, sent_bytes
from stream_icd.execution.engines import Engine
from stream_icd.kafka.record import Record
from stream_icd.kafka.topics import COMMUNITIES
from stream_icd.messages.clock import utc_now
from stream_icd.messages.outcome import Outcome, Processed, Refused
from stream_icd.messages.outgoing import outgoing
from stream_icd.messages.reader import MessageReader
from stream_icd.printable import printable
from stream_icd.quality.modularity import modularity
from stream_icd.quality.ncut import ncut
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot
from stream_icd.workers.fit_check import FitCheck
from stream_icd.workers.record_log import about, described
from stream_icd.workers.step import Step
from stream_icd.workers.warm_up import first_messages


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """Settings of a detector worker.

    Attributes:
        topic: where communities are published.
        n_communities: K for snapshots without their own K; None: estimate it.
        method: bp (the default), or icd, the paper's: encode, then K-means.
        threads: cores that one snapshot may use in icd; bp uses one.
        seed: random seed of the clustering; the same seed gives the same communities.
        reader: how messages are read; default: from the environment.
        budget: resource limits for each message; default: from the environment.
    """

    topic: str = COMMUNITIES
    n_communities: int | None = None
    method: Method = "bp"
    threads: int = 2
    seed: int = 0
    reader: MessageReader = field(default_factory=MessageReader)
    budget: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        for name in ("n_communities", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadSettings(f"{name}={value}; it must be at least 1")


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
    """

    message: Message
    n_communities: int
    milliseconds: dict[str, float]
    k_too_large: int | None = None


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

    def __call__(self, record: Record) -> Outcome:
        """Return the outcome of the record; log lines meanwhile name the record."""
        with about(record, model=self.version):
            return self.outcome(record)

    def outcome(self, record: Record) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none."""
        found = detected(
            lambda: _decoded(record, self.settings),
            self.model,
            self.settings,
            self.clock,
            place=f"{record.partition}@{record.offset}",
            fit_check=self.fit_check,
        )
        if isinstance(found, Refused):
            return found
        facts: dict[str, object] = {"communities": found.n_communities, "ms": found.milliseconds}
        if found.k_too_large is not None:
            facts[TOO_LARGE] = found.k_too_large
        return Processed("detected", facts, (outgoing(self.settings.topic, found.message),))

    def name(self, record: Record) -> str:
        """Return the record's name for error messages."""
        return printable(", ".join(f"{name} {value}" for name, value in described(record).items()))

    def allowance(self, record: Record) -> Allowance:
        """Return the resource limits for the record."""
        return self.settings.budget.allowance(sent_bytes(record, self.settings.reader.limits))

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
) -> Detected | Refused:
    """Fetch a snapshot (timed as decoding) and find its communities.

    Args:
        place: `PARTITION@OFFSET` of the snapshot, if it was read from a topic.
        fit_check: warns if the model does not fit the graph; None: no check.
    """
    stage = "decode"
    try:
        started = perf_counter()
        fetched = snapshot()
        seconds = perf_counter() - started
        stage = "detect"
        found = detect_snapshot(fetched, model, settings, clock, fit_check)
    except BadInput as error:
        return Refused(stage, error)
    times = {**found.milliseconds, "decode": found.milliseconds["decode"] + 1000 * seconds}
    message = encode_communities(replace(found, milliseconds=times, snapshot_place=place))
    too_large = found.k_given if (found.k_given or 0) > found.n_nodes else None
    return Detected(message, found.n_communities, times, too_large)


def warm_up(model: VersionedModel, settings: DetectSettings) -> None:
    """Detect small snapshots, so that all code compiled at first use is compiled now."""
    for message in first_messages():
        outcome = detected(
            partial(decode_snapshot, message.key, message.value, message.headers),
            model,
            replace(settings, n_communities=None),
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
    """

    def __init__(
        self,
        model: ModelHandle,
        settings: DetectSettings,
        engine: Engine[Record, Outcome] | None = None,
    ) -> None:
        self._model = model
        self._settings = settings
        self._engine = engine
        self._small_graphs: set[bytes | None] = set()
        self._fit_check = FitCheck()
        self._detection = RecordDetection(model(), settings, fit_check=self._fit_check)
        self.ahead = engine is not None

    @property
    def context(self) -> dict[str, str]:
        """The model version that results are published under."""
        return {"model": self._detection.version}

    def begin(self, records: Sequence[Record]) -> None:  # noqa: ARG002
        """Take the current model."""
        self._detection = RecordDetection(self._model(), self._settings, fit_check=self._fit_check)

    def process(self, record: Record) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none."""
        return self._detection.outcome(record)

    def work(self, records: Sequence[Record]) -> Iterator[tuple[Record, Outcome]]:
        """Yield each record and its outcome, in the same order."""
        engine = super().work if self._engine is None else self._engine
        for record, outcome in engine(records):
            self._warn_of_k(record, outcome)
            yield record, outcome

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


def result_version(model: VersionedModel, settings: DetectSettings) -> str:
    """Return the version that results are published under; it differs between the two methods."""
    return f"{model.version}-icd" if settings.method == "icd" else model.version


def detect_snapshot(
    snapshot: Snapshot,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
    fit_check: FitCheck | None = None,
) -> Communities:
    """Return the communities of one snapshot (paper, algorithm 4), with their quality.

    K is the snapshot's own, else the settings' (at most the number of nodes), else estimated from
    the graph.

    Args:
        fit_check: warns if the model does not fit the graph; None: no check.
    """
    started = perf_counter()
    adjacency = snapshot.adjacency()
    prepared = perf_counter() - started
    k = snapshot.n_communities or settings.n_communities
    detection = detect(
        adjacency,
        model.model,
        None if k is None else min(k, snapshot.n_nodes),
        method=settings.method,
        seed=settings.seed,
        threads=settings.threads,
    )
    if fit_check is not None and settings.method == "bp":
        found = detection.communities
        fit_check.check(snapshot.graph, model, adjacency, found, k, settings.seed)
    evidence = evidence_for(adjacency, detection.communities, settings.seed)
    return Communities(
        graph=snapshot.graph,
        snapshot_id=snapshot.id,
        window=snapshot.window,
        nodes=snapshot.nodes,
        labels=detection.communities,
        n_edges=snapshot.n_edges,
        model=result_version(model, settings),
        modularity=modularity(adjacency, detection.communities),
        ncut=ncut(adjacency, detection.communities),
        milliseconds={"decode": 1000 * prepared, **detection.milliseconds},
        detected_at=clock(),
        revision=revision_of(snapshot.content, k, settings.seed),
        content=snapshot.content,
        k_given=k,
        seed=settings.seed,
        evidence=evidence.strength,
        bits_saved=evidence.bits_saved,
    )
