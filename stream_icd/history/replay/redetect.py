"""Detects past snapshots again: the work on a snapshot, and the memory that it starts with.

An operator can make a graph start anew (`topics detect-anew`). The windows before that and those
after it are two *eras* of the graph: memory is handed on within each, whatever the times of their
windows. The archive holds the memory at the beginning of each era but the first, which keeps only
the ids that are used up. What reads the archive raises `HistoryDamaged`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial

from stream_icd.core.communities import MemoryKind, revision_of
from stream_icd.core.errors import BadInput, BadSnapshot
from stream_icd.core.headers import Headers
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot
from stream_icd.core.store.store import open_store
from stream_icd.history.archive import Archive, Selection, newest
from stream_icd.history.files import ArchivedDay, ArchivedWindow, Identity
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Refused
from stream_icd.kafka.record import Record
from stream_icd.methods.memory.encoding import is_of_this_version
from stream_icd.methods.memory.memory import BEFORE_ALL
from stream_icd.streaming.detection.record import Detection, warn_of_k
from stream_icd.streaming.execution.budget import Allowance
from stream_icd.streaming.execution.work import Relay
from stream_icd.streaming.workers.memories import place_in
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import EVENT_TYPES, EventHeaders, Message, graph_name_of, refusing
from stream_icd.wire.snapshots import decode_snapshot, is_unordered

_SENT_BYTES_A_ROW = 4
"""Estimated bytes per edge in a message of integer ids; compressed, it is 1 to 4 bytes. An archive
does not store the sizes of messages."""


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """A snapshot to detect again; can be sent to another process."""

    graph: str
    snapshot_id: str
    window_end: datetime
    sent_bytes: int  # of the snapshot's message, or an estimate
    headers: Headers  # those of the message
    snapshot: Callable[[], Snapshot]  # fetches it where it is detected; raises `BadInput`
    for_memory: bool = False  # it is detected only because later windows need the memory of it
    era: int = 0  # how often the graph had started anew; memory is handed on within an era

    @property
    def chain(self) -> str:
        """The name of the chain that the windows of its era are."""
        return _chain_name(self.graph, self.era)

    @classmethod
    def of_archived(
        cls,
        uri: str,
        window: ArchivedWindow,
        limits: Limits = DEFAULT_LIMITS,
        *,
        for_memory: bool = False,
        era: int = 0,
    ) -> ReplayJob:
        """Return an archived snapshot as a job; the worker reads it itself."""
        return cls(
            graph=window.partition.graph,
            snapshot_id=window.identity.snapshot_id,
            window_end=window.window.end,
            sent_bytes=_SENT_BYTES_A_ROW * window.rows,
            headers=window.headers,
            snapshot=partial(_read, uri, window, limits),
            for_memory=for_memory,
            era=era,
        )

    @classmethod
    def of_record(
        cls, record: Record, reader: MessageReader, *, for_memory: bool = False
    ) -> ReplayJob:
        """Return a record of the snapshots topic as a job; bad headers raise `BadSnapshot`."""
        with refusing(BadSnapshot, "the headers cannot be read"):
            limits = reader.limits
            fields = EventHeaders(record.headers, EVENT_TYPES["snapshots"], limits, BadSnapshot)
            return cls(
                graph=graph_name_of(record.key, limits, BadSnapshot),
                snapshot_id=fields.text("ce_id"),
                window_end=fields.window().end,
                sent_bytes=reader.size_of(record),
                headers=record.headers,
                snapshot=partial(reader.decoded, record, decode_snapshot),
                for_memory=for_memory,
            )


@lru_cache(maxsize=8)
def _opened(uri: str) -> Archive:
    return Archive(open_store(uri))


def _read(uri: str, window: ArchivedWindow, limits: Limits) -> Snapshot:
    # Opened once in each process, not for each window.
    return _opened(uri).read_snapshot(window, limits)


ReplayOutcome = Message | Refused


@dataclass(frozen=True, slots=True)
class Redetection(Detection):
    """The work on a job: it returns the communities as a message, or why there are none."""

    smooth: bool = False  # results are made by `Smoothing`, from all windows of a graph
    small_graphs: set[str] = field(default_factory=set, compare=False)  # see `warn_of_k`

    def revision(self, job: ReplayJob) -> str:
        """Return the revision that the result of a job will have, if possible by its headers."""
        headers = dict(job.headers)
        content = headers.get("icd_content", b"").decode(errors="replace")
        k = self.settings.n_communities
        with suppress(BadInput, ValueError):  # detection refuses it
            k = int(headers["icd_k"]) if "icd_k" in headers else k
            content = content or job.snapshot().content
        kind: MemoryKind = "none" if self.chain(job) is None else "memory"
        kind = "smoothed" if self.smooth else kind
        return revision_of(content, k, self.settings.seed, kind, self.settings.horizon)

    def chain(self, job: ReplayJob) -> str | None:
        """Return the graph's era, whose windows need each other's memory; None without memory."""
        if not self.remembers or is_unordered(job.headers):
            return None
        return job.chain

    def __call__(self, job: ReplayJob, relay: Relay | None = None) -> ReplayOutcome:
        outcome = self.detected(job.snapshot, relay)
        if isinstance(outcome, Refused):
            return outcome
        communities = outcome.communities
        warn_of_k(communities.graph, communities.k_above_nodes, self.small_graphs)
        return outcome.message

    def starts(self, archive: Archive, selection: Selection) -> _ReplayStart:
        """Return what precedes the selection, for each era of each graph.

        Usually the archive holds the memory after the last window before the selection, preferably
        of the replay's own model and settings. If it holds none, or one that this version cannot
        read, all windows before must be detected first.
        """
        beginnings = _beginnings(archive, selection.graph)
        graphs = set(beginnings)
        if selection.start is not None:
            before = replace(selection, start=None, end=selection.start)
            graphs |= {day.graph for day in archive.partitions(before)}
        memories: dict[str, ArchivedWindow] = {}
        earlier: list[ArchivedWindow] = []
        for graph in sorted(graphs):
            of_graph = beginnings.get(graph, ())
            for era in range(len(of_graph) + 1):
                chosen = replace(selection, graph=graph)
                memory, after = _before(archive, chosen, self, of_graph, era)
                if memory is not None:
                    memories[_chain_name(graph, era)] = memory
                earlier += after
        # A window is detected with the memory of those before it.
        earlier.sort(key=lambda window: window.order)
        return _ReplayStart(archive, beginnings, memories, earlier)

    def name(self, job: ReplayJob) -> str:
        return printable(f"graph {job.graph}, snapshot {job.snapshot_id}")

    def allowance(self, job: ReplayJob) -> Allowance:
        return self.settings.budget.allowance(job.sent_bytes)


def _chain_name(graph: str, era: int) -> str:
    return f"{graph}\0{era}" if era else graph


_Beginnings = Sequence[ArchivedWindow]
"""The archived memory at the beginning of each era of a graph but the first, in order."""


@dataclass(frozen=True, slots=True)
class _ReplayStart:
    archive: Archive
    beginnings: Mapping[str, _Beginnings]  # of each graph that started anew
    memory: Mapping[str, ArchivedWindow]  # by the name of an era's chain; others start without any
    earlier: Sequence[ArchivedWindow]  # must be detected first, in time order

    def at_start(self, chain: str) -> bytes | None:
        """Return the encoded memory of a chain; None if it starts without any."""
        memory = self.memory.get(chain)
        return None if memory is None else self.archive.read_message(memory).value

    def era(self, window: ArchivedWindow) -> int:
        """Return the number of the era in which the stream detected a snapshot; 0 is the first."""
        return _era(self.beginnings.get(window.partition.graph, ()), window.received[1])


def _beginnings(archive: Archive, graph: str | None) -> dict[str, _Beginnings]:
    beginnings: dict[str, list[ArchivedWindow]] = defaultdict(list)
    year_one = Selection("memory", graph, end=BEFORE_ALL.end + timedelta(days=1))
    for day in archive.partitions(year_one):
        beginnings[day.graph] += newest(archive.read_partition(day))
    return {graph: sorted(of_graph, key=_offset) for graph, of_graph in beginnings.items()}


def _offset(memory: ArchivedWindow) -> int:
    return place_in(memory.headers).offset


def _era(beginnings: _Beginnings, offset: int) -> int:
    return sum(_offset(beginning) < offset for beginning in beginnings)


def _before(
    archive: Archive,
    selection: Selection,
    redetection: Redetection,
    beginnings: _Beginnings,
    era: int,
) -> tuple[ArchivedWindow | None, list[ArchivedWindow]]:
    """Return the memory that an era of a graph starts with, and the windows from there to it."""
    memory = beginnings[era - 1] if era else None
    if selection.start is None:
        return memory, []
    before = replace(selection, start=None, end=selection.start)
    of_stream = replace(before, kind="memory")
    memory = _last_memory(archive, of_stream, redetection, beginnings, era) or memory
    if memory is not None:  # windows of days before it are not after it, whatever their hour
        midnight = memory.window.start.replace(hour=0, minute=0, second=0, microsecond=0)
        before = replace(before, start=midnight)
    earlier = archive.windows(before)
    of_era = [window for window in earlier if _era(beginnings, window.received[1]) == era]
    if memory is None:
        return None, of_era
    return memory, [window for window in of_era if window.window.end > memory.window.end]


def _last_memory(
    archive: Archive, before: Selection, redetection: Redetection, beginnings: _Beginnings, era: int
) -> ArchivedWindow | None:
    """Return the memory after the last window of an era, if this version can read it."""
    for day in reversed(archive.partitions(before)):
        memories = [
            memory
            for memory in archive.read_partition(day)
            if before.holds(memory)
            and memory.window != BEFORE_ALL
            and _era(beginnings, _offset(memory)) == era
        ]
        if memories:
            last = max(memory.window.end for memory in memories)
            own = _identities(archive, day, last, redetection)
            chosen = max(
                (memory for memory in memories if memory.window.end == last),
                key=lambda memory: (
                    memory.identity.model == redetection.version,
                    memory.identity in own,
                    memory.received,
                ),
            )
            # That of an earlier version cannot be read, nor can those before it.
            value = archive.read_message(chosen).value
            return chosen if is_of_this_version(value) else None
    return None


def _identities(
    archive: Archive, day: ArchivedDay, end: datetime, redetection: Redetection
) -> set[Identity]:
    """Return the identities that the memory after windows with this end has on the stream."""
    forward = replace(redetection, smooth=False)
    jobs = (
        ReplayJob.of_archived(archive.store.uri, window)
        for window in archive.read_partition(replace(day, kind="snapshots"))
        if window.window.end == end
    )
    return {Identity(job.snapshot_id, forward.version, forward.revision(job)) for job in jobs}
