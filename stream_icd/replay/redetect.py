"""Detects a past snapshot again: the work of one worker, in this process or in another."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial

from stream_icd.communities import MemoryKind, revision_of
from stream_icd.detection.record import (
    DetectSettings,
    RecentMemories,
    detected,
    has_memory,
    result_version,
    warm_up,
)
from stream_icd.errors import BadInput, BadSnapshot
from stream_icd.execution.budget import Allowance, sent_bytes
from stream_icd.execution.work import Relay
from stream_icd.history.archive import read_snapshot
from stream_icd.history.files import ArchivedWindow
from stream_icd.kafka.record import Record
from stream_icd.messages.claims import MessageReader
from stream_icd.messages.records import Refused
from stream_icd.printable import printable
from stream_icd.registry.model import VersionedModel
from stream_icd.snapshot import Snapshot
from stream_icd.store.store import open_store
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits
from stream_icd.wire.message import EventHeaders, Headers, Message, graph_of, refusing
from stream_icd.wire.snapshots import SNAPSHOT_TYPE, decode_snapshot, is_unordered

SENT_BYTES_A_ROW = 4
"""Estimated bytes per edge in a message of integer ids; compressed, it is 1 to 4 bytes. An archive
does not store the sizes of messages."""


@dataclass(frozen=True, slots=True)
class Job:
    """A snapshot to detect again; can be sent to another process.

    Attributes:
        sent_bytes: size of the snapshot's message, or an estimate.
        headers: those of the message.
        snapshot: fetches the snapshot; called in the process that detects it. Raises BadInput if
            the snapshot violates the contract.
        for_memory: whether it is detected only because later windows need the memory of it.
        era: how often the graph had started anew before; memory is handed on within an era.
    """

    graph: str
    snapshot_id: str
    window_end: datetime
    sent_bytes: int
    headers: Headers
    snapshot: Callable[[], Snapshot]
    for_memory: bool = False
    era: int = 0


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
        sent_bytes=SENT_BYTES_A_ROW * noted.rows,
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
        fields = EventHeaders(record.headers, SNAPSHOT_TYPE, limits, BadSnapshot)
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
class Redetection:
    """The work on a job: it returns the communities as a message, or why there are none.

    The same model, settings, snapshot and memory give the same communities in any process.

    Attributes:
        smooth: results are made by `Smoothing`, from all windows of a graph.
        recent: memories that need not be decoded.
    """

    model: VersionedModel
    settings: DetectSettings
    smooth: bool = False
    recent: RecentMemories = field(default_factory=RecentMemories, compare=False)

    @property
    def version(self) -> str:
        """The model version that results are published under."""
        return result_version(self.model, self.settings)

    def revision(self, job: Job) -> str:
        """Return the revision that the result of the job will have.

        It is computed from headers; a snapshot without a content hash in its headers is read.
        """
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
        if not has_memory(self.model, self.settings) or is_unordered(job.headers):
            return None
        return chain_name(job.graph, job.era)

    def __call__(self, job: Job, relay: Relay | None = None) -> Outcome:
        outcome = detected(job.snapshot, self.model, self.settings, relay=relay, recent=self.recent)
        return outcome if isinstance(outcome, Refused) else outcome.message

    def name(self, job: Job) -> str:
        return printable(f"graph {job.graph}, snapshot {job.snapshot_id}")

    def allowance(self, job: Job) -> Allowance:
        return self.settings.budget.allowance(job.sent_bytes)

    def warm_up(self) -> None:
        warm_up(self.model, self.settings)


def chain_name(graph: str, era: int = 0) -> str:
    """Return the name of the chain that the windows of an era of a graph are."""
    return f"{graph}\0{era}" if era else graph
