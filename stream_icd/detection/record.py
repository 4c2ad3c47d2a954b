"""The outcome of one record of the snapshots topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from time import perf_counter

from stream_icd.detection.fit_check import FitCheck
from stream_icd.detection.recent import RecentMemories
from stream_icd.detection.settings import DetectSettings, has_memory, result_version
from stream_icd.errors import BadInput, BadMemory
from stream_icd.execution.budget import MessageAllowance, sent_bytes
from stream_icd.execution.relay import LocalRelay, Relay
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.messages.outcome import Outcome, Processed, Refused, Stage
from stream_icd.messages.records import about, described, outgoing
from stream_icd.printable import printable
from stream_icd.registry.shipped import VersionedModel
from stream_icd.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.times import utc_now
from stream_icd.wire.communities import encode_communities
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import decode_snapshot, encode_snapshot, is_unordered

TOO_LARGE = "k_too_large"
"""Log event for a snapshot with fewer nodes than `--k`."""


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
    recent: RecentMemories = field(default_factory=RecentMemories, compare=False)

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
            recent=self.recent,
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

    def allowance(self, record: Record) -> MessageAllowance:
        """Return the resource limits for the record."""
        return self.settings.budget.allowance(sent_bytes(record, self.settings.reader.limits))

    def instead(self, baton: bytes) -> bytes:
        """Return the memory of a graph that starts anew, since this one cannot be used."""
        from stream_icd.memory.encoding import anew

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
    recent: RecentMemories | None = None,
) -> Detected | Refused:
    """Fetch a snapshot (timed as decoding) and find its communities.

    Args:
        place: `PARTITION@OFFSET` of the snapshot, if it was read from a topic.
        fit_check: warns if the model does not fit the graph; None: no check.
        relay: gives the memory before the snapshot; None: detect without memory.
        recent: memories that need not be decoded; None: decode what the relay gives.

    Raises:
        BadMemory: the memory before the snapshot cannot be read, or detection fails with it.
    """
    # A quarter of the start of a detector's main process, which only distributes records.
    from stream_icd.detection.remembering import Remembering
    from stream_icd.detection.snapshot import detect_snapshot

    memory: Remembering | None = None
    if relay is not None:
        recent = recent or RecentMemories(most_kept=0)
        memory = Remembering(relay, clock, settings.reader.limits, recent)
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


_DAY = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime(2000, 1, 2, tzinfo=UTC))


N_CLIQUES, SIZE = 20, 10


def first_messages() -> list[Message]:
    """Return small snapshots of each kind: weighted or not, with K estimated or given.

    A K below or above the number of cliques makes detection merge or split communities. One more
    clique is of nodes that memory does not know. The ring is so small that its communities are
    compared with those of random graphs (`bp.evidence`).
    """
    few, many = N_CLIQUES // 2, 2 * N_CLIQUES
    kinds = ((weighted, k) for weighted in (False, True) for k in (None, few, many))
    cliques = [_ring_of_cliques(weighted=weighted, k=k) for weighted, k in kinds]
    one_more = _ring_of_cliques(N_CLIQUES + 1)
    return [encode_snapshot(one) for one in (*cliques, one_more, _ring())]


def _ring_of_cliques(
    n_cliques: int = N_CLIQUES, *, weighted: bool = False, k: int | None = None
) -> Snapshot:
    """Return a graph with communities on more than one scale, so that each loop runs."""
    starts = range(0, n_cliques * SIZE, SIZE)
    inside = [(start + a, start + b) for start in starts for a, b in combinations(range(SIZE), 2)]
    between = [(start, (start + SIZE + 1) % (n_cliques * SIZE)) for start in starts]
    src, dst = zip(*inside, *between, strict=True)
    weights = [1.0] * len(src) if weighted else None
    return snapshot_from_pairs(
        src, dst, graph="warm-up", id="warm-up", window=_DAY, weights=weights, n_communities=k
    )


def _ring() -> Snapshot:
    src = range(N_CLIQUES)
    dst = [*src[1:], 0]
    return snapshot_from_pairs(src, dst, graph="warm-up", id="warm-up", window=_DAY)
