"""The outcome of one record of the snapshots topic."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from time import perf_counter
from typing import TYPE_CHECKING

from stream_icd.communities import Communities
from stream_icd.detection.settings import DetectSettings, has_memory, result_version
from stream_icd.errors import BadInput, BadMemory
from stream_icd.execution.budget import Allowance, sent_bytes
from stream_icd.execution.relay import LocalRelay, Relay
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.messages.records import (
    Outcome,
    Processed,
    Refused,
    Stage,
    about,
    described,
    outgoing,
)
from stream_icd.printable import printable
from stream_icd.registry.model import VersionedModel
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.times import utc_now
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot, is_unordered

if TYPE_CHECKING:
    from stream_icd.memory.memory import Memory

TOO_LARGE = "k_too_large"
"""Log event for a snapshot with fewer nodes than `--k`."""

MOST_KEPT = 500_000
"""Nodes and edges of all memories that are kept: up to 30 MB."""

A_GRAPH = 120
"""Nodes and edges that take as much as a graph of hardly any: 7 kB."""


class RecentMemories:
    """The memories that this process encoded last, by graph.

    What is decoded is equal to what was encoded, bit for bit, so results do not depend on whether
    a memory is still here. Above `most_kept` nodes and edges, the longest unused are dropped.
    """

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._n_kept = 0
        self._kept: OrderedDict[str, tuple[bytes, Memory, int]] = OrderedDict()

    def get(self, graph: str, encoded: bytes) -> Memory | None:
        """Return the memory that these bytes encode; None if it is not here."""
        found = self._kept.get(graph)
        return None if found is None or found[0] != encoded else found[1]

    def put(self, graph: str, encoded: bytes, memory: Memory) -> None:
        size = A_GRAPH + memory.n_nodes + sum(one.nnz for one in memory.evidence)
        self._n_kept += size - self._kept.pop(graph, (b"", memory, 0))[2]
        self._kept[graph] = encoded, memory, size
        while self._n_kept > self._most_kept:
            self._n_kept -= self._kept.popitem(last=False)[1][2]


@dataclass(frozen=True, slots=True)
class Detected:
    """The communities of a snapshot, and their message.

    Attributes:
        state: the memory after the snapshot; None if it changed nothing.
    """

    communities: Communities
    message: Message
    state: OutgoingRecord | None = None


@dataclass(frozen=True, slots=True)
class RecordDetection:
    """Processes one record of the snapshots topic, in any process.

    The same model, settings and record give the same communities in any process.
    """

    model: VersionedModel
    settings: DetectSettings
    clock: Callable[[], datetime] = utc_now
    checked: set[tuple[str, str]] = field(default_factory=set, compare=False)
    recent: RecentMemories = field(default_factory=RecentMemories, compare=False)

    @property
    def version(self) -> str:
        """The model version that results are published under."""
        return result_version(self.model, self.settings)

    def chain(self, record: Record) -> str | None:
        """Return the graph, whose windows need each other's memory; None without memory."""
        if not has_memory(self.model, self.settings) or is_unordered(record.headers):
            return None
        return (record.key or b"").decode(errors="replace")

    def __call__(self, record: Record, relay: Relay | None = None) -> Outcome:
        """Return the communities of the record's snapshot, or why there are none.

        Log lines meanwhile name the record. Without a relay, it is detected without memory.
        """
        with about(record, model=self.version):
            found = detected(
                lambda: self.settings.reader.decoded(record, decode_snapshot),
                self.model,
                self.settings,
                self.clock,
                place=f"{record.partition}@{record.offset}",
                checked=self.checked,
                relay=relay,
                recent=self.recent,
            )
        if isinstance(found, Refused):
            return found
        communities, k = found.communities, found.communities.k_given
        facts: dict[str, object] = {
            "communities": communities.n_communities,
            "ms": communities.milliseconds,
        }
        if k is not None and k > communities.n_nodes:
            facts[TOO_LARGE] = k
        return Processed(
            "detected", facts, (outgoing(self.settings.topic, found.message),), found.state
        )

    def name(self, record: Record) -> str:
        """Return the record's name for error messages."""
        return printable(", ".join(f"{name} {value}" for name, value in described(record).items()))

    def allowance(self, record: Record) -> Allowance:
        """Return the resource limits for the record."""
        return self.settings.budget.allowance(sent_bytes(record, self.settings.reader.limits))

    def instead(self, baton: bytes) -> bytes:
        """Return the memory of a graph that starts anew, since this one cannot be used."""
        from stream_icd.memory.encoding import anew

        return anew(baton)

    def warm_up(self) -> None:
        """See `warm_up`."""
        warm_up(self.model, self.settings)


def detected(
    snapshot: Callable[[], Snapshot],
    model: VersionedModel,
    settings: DetectSettings,
    clock: Callable[[], datetime] = utc_now,
    place: str = "",
    checked: set[tuple[str, str]] | None = None,
    relay: Relay | None = None,
    recent: RecentMemories | None = None,
) -> Detected | Refused:
    """Fetch a snapshot (timed as decoding) and find its communities.

    Args:
        place, checked: see `detect_snapshot`.
        relay: gives the memory before the snapshot; None: detect without memory.
        recent: memories that need not be decoded; None: decode what the relay gives.

    Raises:
        BadMemory: the memory before the snapshot cannot be read, or detection fails with it.
    """
    # A quarter of the start of a detector's main process, which only distributes records.
    from stream_icd.detection.snapshot import Remembering, detect_snapshot

    memory: Remembering | None = None
    if relay is not None:
        recent = recent or RecentMemories(most_kept=0)
        memory = Remembering(relay, clock, settings.reader.limits, recent)
    stage: Stage = "decode"
    try:
        started = perf_counter()
        fetched = snapshot()
        decode_ms = 1000 * (perf_counter() - started)
        stage = "detect"
        found = detect_snapshot(fetched, model, settings, clock, checked, memory, decode_ms, place)
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
    return Detected(found, message, state)


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


N_CLIQUES, SIZE = 20, 10


def first_messages() -> list[Message]:
    """Return small snapshots of each kind: weighted or not, with K estimated or given.

    A K below or above the number of cliques makes detection merge or split communities. One more
    clique is of nodes that memory does not know. The ring is so small that its communities are
    compared with those of random graphs (`bp.evidence`).
    """
    few, many = N_CLIQUES // 2, 2 * N_CLIQUES
    cliques, ring = _ring_of_cliques(N_CLIQUES), range(N_CLIQUES)
    weights = [1.0] * len(cliques[0])
    first = [
        _snapshot(*cliques, weights=weights if weighted else None, n_communities=k)
        for weighted in (False, True)
        for k in (None, few, many)
    ]
    one_more = _snapshot(*_ring_of_cliques(N_CLIQUES + 1))
    small = _snapshot(ring, [*ring[1:], 0])
    return [encode_snapshot(snapshot) for snapshot in (*first, one_more, small)]


def _ring_of_cliques(n_cliques: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the pairs of a graph with communities on more than one scale: each loop runs."""
    starts = range(0, n_cliques * SIZE, SIZE)
    inside = [(start + a, start + b) for start in starts for a, b in combinations(range(SIZE), 2)]
    between = [(start, (start + SIZE + 1) % (n_cliques * SIZE)) for start in starts]
    src, dst = zip(*inside, *between, strict=True)
    return src, dst


def _snapshot(
    src: Sequence[int],
    dst: Sequence[int],
    weights: Sequence[float] | None = None,
    n_communities: int | None = None,
) -> Snapshot:
    day = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))
    return snapshot_from_pairs(
        src,
        dst,
        graph="warm-up",
        id="warm-up",
        window=day,
        weights=weights,
        n_communities=n_communities,
    )
