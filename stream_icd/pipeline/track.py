"""Tracking on a stream: communities in, events out; the events topic is the memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from stream_icd.communities import Communities
from stream_icd.errors import BadInput
from stream_icd.events import CommunityEvents
from stream_icd.kafka.batch_done import BatchDone
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import EVENTS
from stream_icd.pipeline.claim_settings import ClaimSettings
from stream_icd.pipeline.claims import decoded
from stream_icd.pipeline.dead_letters import DeadLetterLimit, dead_letter
from stream_icd.pipeline.events_topic import EventsTopic, Identity, Told, identity_of
from stream_icd.pipeline.outgoing import outgoing
from stream_icd.pipeline.record_log import about
from stream_icd.tracking.settings import TrackSettings
from stream_icd.tracking.track import remember, track
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import encode_events
from stream_icd.wire.limits import Limits

Recent = tuple[CommunityEvents, ...]


@dataclass(slots=True)
class Progress:
    """Where each graph and each partition stands after some records.

    Attributes:
        recent: the windows of each graph that its next one is compared with.
        following: the offset after the last record, of each partition.
        told: which results were tracked.
    """

    recent: dict[str, Recent] = field(default_factory=dict)
    following: dict[int, int] = field(default_factory=dict)
    told: list[Identity] = field(default_factory=list)


class Tracker:
    """What a worker does with the records of the communities topic.

    Give `handle` and `done` to one `run_consumer`: what was handled counts only once it was
    published and committed. The topic of events is the only memory. It is read at the start, and
    again, from where it was left, whenever somebody else may have worked on a graph: when a
    window neither follows the last record in its partition nor the last window in time.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        dead_letters: DeadLetterLimit,
        settings: TrackSettings | None = None,
        *,
        graph: str | None = None,
        topic: str = EVENTS,
        limits: Limits | None = None,
        claims: ClaimSettings | None = None,
    ) -> None:
        self._settings = settings or TrackSettings()
        self._dead_letters = dead_letters
        self._graph = graph
        self._topic = topic
        self._limits = limits or Limits()
        self._claims = claims or ClaimSettings()
        self._memory = EventsTopic(
            kafka, topic, graph, self._settings.memory + 1, self._limits, self._claims
        )
        self._told = Told()
        self._kept = Progress()
        self._batch = Progress()
        self._is_caught_up = False

    def handle(self, records: Sequence[Record]) -> Iterator[OutgoingRecord]:
        """For each result that was not tracked yet its events, or its dead letter, in order.

        Raises:
            TooManyDeadLetters: nearly all of the last records were bad.
            TopicMissing, BrokerUnavailable: the events cannot be read.
        """
        self._batch = Progress()
        self._is_caught_up = False
        for record in records:
            if self._graph is None or record.key == self._graph.encode():
                with about(record):
                    outcome = self._outcome(record)
                if outcome is not None:
                    yield outcome
            self._batch.following[record.partition] = record.offset + 1

    def done(self, _: BatchDone) -> None:
        """What was handled last is published and committed."""
        self._kept.recent.update(self._batch.recent)
        self._kept.following.update(self._batch.following)
        for identity in self._batch.told:
            self._told.tell(identity)

    def _outcome(self, record: Record) -> OutgoingRecord | None:
        """Its events or its dead letter; None where it was tracked before."""
        log = structlog.get_logger()
        try:
            found = decoded(record, decode_communities, self._claims, self._limits)
        except BadInput as error:
            log.warning("dead letter", stage="decode", reason=str(error))
            self._dead_letters.count(dead=True, reason=str(error))
            return dead_letter(record, "decode", error)
        self._dead_letters.count(dead=False)
        if not self._follows(record, found):
            self._catch_up()
        identity = identity_of(record)
        if identity in self._told or identity in self._batch.told:
            log.info("tracked before")
            return None
        tracked = self._track(found)
        self._batch.told.append(identity)
        kinds = Counter(event.kind for event in tracked.events)
        log.info(
            "too late to be tracked" if tracked.late else "tracked",
            missed=tracked.missed,
            events=dict(kinds),
        )
        return outgoing(self._topic, encode_events(tracked))

    def _track(self, found: Communities) -> CommunityEvents:
        recent = self._recent(found.graph)
        tracked = track(recent, found, self._settings)
        self._batch.recent[found.graph] = remember(recent, tracked, self._settings)
        return tracked

    def _recent(self, graph: str) -> Recent:
        return self._batch.recent.get(graph) or self._kept.recent.get(graph, ())

    def _follows(self, record: Record, found: Communities) -> bool:
        """Whether nobody else can have tracked anything of this graph since we did."""
        kept = self._kept.following.get(record.partition)
        if record.offset == self._batch.following.get(record.partition, kept):
            return True
        recent = self._recent(found.graph)
        return bool(recent) and recent[-1].window.end == found.window.start

    def _catch_up(self) -> None:
        """Learn what was published since we looked; once a batch, since meanwhile it is ours."""
        if self._is_caught_up:
            return
        for tracked in self._memory.news(self._told):
            recent = self._kept.recent.get(tracked.graph, ())
            self._kept.recent[tracked.graph] = remember(recent, tracked, self._settings)
        self._is_caught_up = True
