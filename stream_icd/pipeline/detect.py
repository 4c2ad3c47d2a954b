"""Detection on a stream: a snapshot in, its communities out, and bad ones set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter

import structlog

from stream_icd.communities import Communities
from stream_icd.errors import BadInput, BadSettings
from stream_icd.icd.detection import Mode, detect
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.topics import COMMUNITIES
from stream_icd.pipeline.dead_letters import DeadLetterLimit, dead_letter
from stream_icd.pipeline.outgoing import outgoing
from stream_icd.quality.modularity import modularity
from stream_icd.quality.ncut import ncut
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.snapshots import decode_snapshot


def utc_now() -> datetime:
    """The clock that results are stamped with, unless another is given."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class DetectSettings:
    """What a detector worker is told.

    Attributes:
        topic: where communities go.
        graph: detect only this graph's snapshots; None for all.
        n_communities: K for snapshots that do not say theirs; None to find it out.
        mode: refined (the default), or faithful to the paper: encode, then K-means.
        threads: cores that one snapshot may use.
        seed: of the clustering; the same seed gives the same communities.
        limits: what a message may make us allocate.
    """

    topic: str = COMMUNITIES
    graph: str | None = None
    n_communities: int | None = None
    mode: Mode = "refined"
    threads: int = 2
    seed: int = 0
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("n_communities", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadSettings(f"{name}={value}; it must be at least 1")


class Detector:
    """What a worker does with the records of the snapshots topic; `handle` is its one verb."""

    def __init__(
        self,
        model: VersionedModel,
        settings: DetectSettings,
        dead_letters: DeadLetterLimit,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._model = model
        self._settings = settings
        self._dead_letters = dead_letters
        self._clock = clock

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        """For each record its communities, or its dead letter, in the same order.

        Raises:
            TooManyDeadLetters: nearly all of the last records were bad.
        """
        for record in records:
            if self._settings.graph is None or record.key == self._settings.graph.encode():
                yield self._outcome(record)

    def _outcome(self, record: Record) -> OutgoingRecord:
        log = structlog.get_logger().bind(
            place=record.place, model=self._model.version, key=str(record.key)
        )
        stage = "decode"
        try:
            started = perf_counter()
            snapshot = decode_snapshot(
                record.key, record.value, record.headers, self._settings.limits
            )
            decoded = perf_counter() - started
            stage = "detect"
            found = detect_snapshot(snapshot, self._model, self._settings, self._clock)
        except BadInput as error:
            log.warning("dead letter", stage=stage, reason=str(error))
            self._dead_letters.count(dead=True, reason=str(error))
            return dead_letter(record, stage, error)
        self._dead_letters.count(dead=False)
        times = {**found.milliseconds, "decode": found.milliseconds["decode"] + 1000 * decoded}
        log.info("detected", snapshot=snapshot.id, communities=found.n_communities, ms=times)
        message = encode_communities(replace(found, milliseconds=times))
        return outgoing(self._settings.topic, message)


def result_version(model: VersionedModel, settings: DetectSettings) -> str:
    """Under what model version results are published: what the two modes find differs."""
    return f"{model.version}-faithful" if settings.mode == "faithful" else model.version


def detect_snapshot(
    snapshot: Snapshot,
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
) -> Communities:
    """The communities of one snapshot (paper, algorithm 4), with their quality.

    K is the snapshot's own, else the settings', else found out from the graph.

    Raises:
        BadInput: K is larger than the number of nodes.
    """
    started = perf_counter()
    adjacency = snapshot.adjacency()
    prepared = perf_counter() - started
    k = snapshot.n_communities or settings.n_communities
    if k is not None and k > snapshot.n_nodes:
        raise BadInput(f"{snapshot.id}: {k} communities asked of {snapshot.n_nodes} nodes")
    detection = detect(
        adjacency,
        model.model,
        k,
        mode=settings.mode,
        seed=settings.seed,
        threads=settings.threads,
    )
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
    )
