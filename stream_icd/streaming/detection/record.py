"""The outcome of one record of the snapshots topic, by the settings of a detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from time import perf_counter

import structlog

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, BadMemory, BadSettings
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.kafka.messages.records import (
    Outcome,
    Processed,
    Refused,
    Stage,
    about,
    described,
    outgoing,
)
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.methods.memory.recent import RecentMemories
from stream_icd.registry.model import VersionedModel
from stream_icd.streaming.detection.settings import DetectSettings
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import Relay
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot, is_unordered

K_TOO_LARGE = "k_too_large"
"""Log event for a snapshot with fewer nodes than `--k`."""

_MOST_WARNINGS = 1000
"""Maximum number of graphs that a warning is logged for."""


@dataclass(frozen=True, slots=True)
class _Detected:
    communities: Communities
    message: Message
    state: OutgoingRecord | None  # the memory after the snapshot; None if it changed nothing


@dataclass(frozen=True, slots=True)
class Detection:
    """A model and the settings to detect with, in any process."""

    model: VersionedModel
    settings: DetectSettings
    recent: RecentMemories = field(default_factory=RecentMemories, compare=False, kw_only=True)

    @property
    def version(self) -> str:
        """The model version that results are published under."""
        return self.settings.version_of(self.model)

    @property
    def remembers(self) -> bool:
        """Whether windows are detected with the memory of earlier ones."""
        settings = self.settings
        return settings.memory == "auto" and self.model.model.remembers(settings.method)

    def detected(
        self,
        snapshot: Callable[[], Snapshot],
        relay: Relay | None,
        place: str = "",
        checked: set[tuple[str, str]] | None = None,
    ) -> _Detected | Refused:
        """Fetch a snapshot (timed as decoding) and find its communities.

        Args:
            relay: gives the memory before the snapshot; None: detect without memory.
            place, checked: see `detect_snapshot`.

        Raises:
            BadMemory: the memory before the snapshot cannot be read, or detection fails with it.
            BadSettings: the topic of memory has no room for any.
        """
        # A quarter of the start of a detector's main process, which only distributes records.
        from stream_icd.streaming.detection.snapshot import SnapshotMemory, detect_snapshot

        model, settings = self.model, self.settings
        memory = None if relay is None else SnapshotMemory(relay, settings, self.recent)
        stage: Stage = "decode"
        try:
            started = perf_counter()
            fetched = snapshot()
            decode_ms = 1000 * (perf_counter() - started)
            stage = "detect"
            communities = detect_snapshot(
                fetched, model, settings, checked, memory, decode_ms, place
            )
            message = encode_communities(communities)
            state = None if memory is None else memory.hand_on(communities)
            return _Detected(communities, message, state)
        except (BadMemory, BadSettings):
            raise
        except Exception as error:
            # Before the snapshot is refused: without this memory, it may be detected.
            if memory is not None and memory.is_used:
                raise BadMemory(
                    f"detection with it fails: {type(error).__name__}: {error}"
                ) from error
            if isinstance(error, BadInput):
                return Refused(stage, error)
            raise

    def warm_up(self) -> None:
        """Detect small snapshots, so that all code compiled at first use is compiled now."""
        from stream_icd.methods.bp.memberships import compile_memberships  # as `detected`

        compile_memberships()
        relay = Relay() if self.remembers else None
        settings, decoded = replace(self.settings, n_communities=None), RecentMemories(most_kept=0)
        small = Detection(self.model, settings, recent=decoded)
        for message in _first_messages():
            snapshot = partial(decode_snapshot, message.key, message.value, message.headers)
            outcome = small.detected(snapshot, relay)
            if isinstance(outcome, Refused):
                raise outcome.error


@dataclass(frozen=True, slots=True)
class RecordDetection(Detection):
    """Processes one record of the snapshots topic.

    The same model, settings and record give the same communities in any process.
    """

    checked: set[tuple[str, str]] = field(default_factory=set, compare=False)

    def chain(self, record: Record) -> str | None:
        """Return the graph, whose windows need each other's memory, or what is known of its nodes;
        None without both."""
        if self.settings.follows_known or self._is_remembered(record):
            return record.key_text
        return None

    def _is_remembered(self, record: Record) -> bool:
        return self.remembers and not is_unordered(record.headers)

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none."""
        detection: Detection = self
        if relay is not None and relay.known is not None:
            of_graph = {record.key_text: relay.known}
            detection = replace(self, settings=replace(self.settings, known=of_graph))
        with about(record, model=self.version):
            outcome = detection.detected(
                lambda: self.settings.reader.decoded(record, decode_snapshot),
                relay if self._is_remembered(record) else None,
                f"{record.partition}@{record.offset}",
                self.checked,
            )
        if isinstance(outcome, Refused):
            return outcome
        communities = outcome.communities
        facts: dict[str, object] = {
            "communities": communities.n_communities,
            "ms": communities.milliseconds,
        }
        if communities.k_above_nodes is not None:
            facts[K_TOO_LARGE] = communities.k_above_nodes
        result = outgoing(self.settings.topic, outcome.message)
        return Processed("detected", facts, (result,), outcome.state)

    def name(self, record: Record) -> str:
        return printable(", ".join(f"{name} {value}" for name, value in described(record).items()))

    def allowance(self, record: Record) -> Allowance:
        return self.settings.budget.allowance(self.settings.reader.size_of(record))


def warn_of_k(graph: str, k: object, warned: set[str]) -> None:
    """Log once for each graph that it has fewer nodes than K; `k` is None if it has enough."""
    if k is not None and graph not in warned and len(warned) < _MOST_WARNINGS:
        warned.add(graph)
        structlog.get_logger().warning(
            "--k is above the number of nodes of this graph's snapshot: each node becomes its own "
            "community (logged once per graph)",
            graph=graph,
            k=k,
        )


_N_CLIQUES, _SIZE = 20, 10


def _first_messages() -> list[Message]:
    """Return small snapshots of each kind: weighted or not, with K estimated or given.

    A K below or above the number of cliques makes detection merge or split communities. One more
    clique is of nodes that memory does not know. The ring is so small that its communities are
    compared with those of random graphs (`bp.evidence`). Three cliques without links between them
    are more than K: a community is in pieces (`bp.agglomeration.connected`).
    """
    few, many = _N_CLIQUES // 2, 2 * _N_CLIQUES
    (src, dst), ring = _ring_of_cliques(_N_CLIQUES), range(_N_CLIQUES)
    day = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))
    snapshot = partial(snapshot_from_pairs, graph="warm-up", id="warm-up", window=day)
    snapshots = [
        snapshot(src, dst, weights=weights, n_communities=k)
        for weights in (None, [1.0] * len(src))
        for k in (None, few, many)
    ]
    one_more = snapshot(*_ring_of_cliques(_N_CLIQUES + 1))
    small = snapshot(ring, [*ring[1:], 0])
    apart = snapshot(*zip(*_cliques(3), strict=True), n_communities=2)
    return [encode_snapshot(first) for first in (*snapshots, one_more, small, apart)]


def _ring_of_cliques(n_cliques: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the pairs of a graph with communities on more than one scale: each loop runs."""
    n_nodes = n_cliques * _SIZE
    between = [(start, (start + _SIZE + 1) % n_nodes) for start in range(0, n_nodes, _SIZE)]
    src, dst = zip(*(_cliques(n_cliques) + between), strict=True)
    return src, dst


def _cliques(n_cliques: int) -> list[tuple[int, int]]:
    starts = range(0, n_cliques * _SIZE, _SIZE)
    return [(start + a, start + b) for start in starts for a, b in combinations(range(_SIZE), 2)]
