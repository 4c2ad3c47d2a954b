"""Tracking a stream: reads communities, publishes events; the events topic is the only state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import structlog

from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.core.events import CommunityEvents
from stream_icd.core.headers import Headers
from stream_icd.core.node_ids import change_of_kind
from stream_icd.core.snapshot import Window
from stream_icd.core.times import too_far_ahead, utc_now
from stream_icd.kafka.delivery.handler import BatchDone
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, outgoing
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import EVENTS
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.packed import PackedWindow
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.events_topic import EventsTopic, Forgotten
from stream_icd.streaming.subscribers.seen_results import MixedModels, SeenResults, result_of
from stream_icd.streaming.workers.recent_windows import RecentWindows, Unpacked
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.communities import decode_communities
from stream_icd.wire.events import encode_events


@dataclass(eq=False)
class Tracker(Step):
    """Assigns stable ids to communities and publishes their lifecycle events.

    It reads the events topic at the start, and its new records whenever partitions are assigned:
    another worker may have tracked their graphs. Raises `TopicMissing` or `BrokerUnavailable` if it
    cannot.
    """

    stages = ("decode", "track")

    kafka: KafkaSettings
    settings: TrackSettings = field(default_factory=TrackSettings)
    graph: str | None = None  # remember only this graph; None: all
    naming: Naming | None = None  # names the communities of each window
    topic: str = EVENTS
    reader: MessageReader = field(default_factory=MessageReader)
    memory: MemorySettings = field(default_factory=MemorySettings)

    def __post_init__(self) -> None:
        self._unnamed_because = ""
        self._memory = self._events(None if self.graph is None else {self.graph})
        self._recent = RecentWindows[PackedWindow](self.memory.cache_bytes)
        self._unpacked = Unpacked()
        self._in_batch: set[str] = set()  # the graphs of this batch
        self._seen = SeenResults()
        self._seen_in_batch = SeenResults(self._seen)
        self._models = MixedModels()
        self._is_caught_up = False
        self._first_ids: dict[str, int] = {}  # of graphs with windows that are forgotten

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: ARG002
        self._is_caught_up = False

    def begin(self, records: Sequence[Record]) -> None:
        """Forget what a batch has changed that was not committed."""
        self._recent.begin()
        self._in_batch = {record.key_text for record in records}
        self._seen_in_batch = SeenResults(self._seen)

    def process(self, record: Record) -> Outcome:
        """Return the events of a window, unless it was tracked before."""
        try:
            communities = self.reader.decoded(record, decode_communities)
        except BadInput as error:
            return Refused("decode", error)
        if self._is_ahead(communities.window):  # else all later windows of the graph were late
            reason = (
                f"the window ends at {communities.window.end}, too far in the future of the clock "
                f"here, {utc_now():%Y-%m-%d %X} UTC; the limit is {self.settings.ahead}. If both "
                "are right, raise --ahead of the tracker"
            )
            return Refused("track", LimitExceeded(reason))
        if communities.memory == "damaged":
            return Processed("not tracked: the window lacks most of its nodes")
        if not self._is_caught_up:  # nobody else tracks these graphs while we have the partitions
            self._take_all(self._memory, self._seen)
            self._is_caught_up = True
        for graphs in (self._in_batch, {communities.graph}):  # all at once, unless that is too much
            if self._recent.missing({communities.graph}):
                self._read_again(self._recent.missing(graphs))
        if not self._seen_in_batch.is_new(result_of(record)):
            return Processed("tracked before")
        try:
            return self._tracked(communities)
        except LimitExceeded as error:
            # Or it would be taken for a repetition when it is sent again.
            self._seen_in_batch.take_back(result_of(record))
            return Refused("track", error)

    def state_headers(self, record: Record) -> Headers:
        """Return the headers of the events that the graph's last window was read from."""
        return self._memory.headers(record.key)

    def forget(self, record: Record) -> None:
        self._seen_in_batch.take_back(result_of(record))
        self._recent.undo()

    def done(self, batch: BatchDone) -> None:  # noqa: ARG002
        self._recent.commit()
        self._seen_in_batch.keep()

    def _events(self, graphs: Collection[str] | None) -> EventsTopic:
        windows, most_bytes = self.settings.absence + 2, self.memory.cache_bytes
        return EventsTopic(self.kafka, self.topic, graphs, windows, self.reader, most_bytes)

    def _is_ahead(self, window: Window) -> bool:
        return too_far_ahead(window, utc_now(), self.settings.ahead)

    def _tracked(self, communities: Communities) -> Processed:
        recent = self._recent.get(communities.graph)
        first_id = self._first_ids.get(communities.graph, 0)
        if not recent:  # records without a window, such as late ones, may have used ids
            first_id = self._memory.first_id(communities.graph)
        windows = self._unpacked.all(recent)
        tracked = track(windows, communities, self.settings, first_id)
        packed = PackedWindow.of(tracked)
        self._unpacked.put(packed, tracked)
        self._recent.change(communities.graph, remember(recent, packed, self.settings))
        if warning := self._models.look_at(communities.graph, communities.model):
            structlog.get_logger().warning(f"{warning}; its events are of whichever came first")
        if windows and (warning := change_of_kind(windows[-1].nodes, communities.nodes)):
            structlog.get_logger().warning(warning)
        tracked = self._named(tracked)
        kinds = Counter(event.kind for event in tracked.events)
        return Processed(
            "too late to be tracked" if tracked.late else "tracked",
            {"missed": tracked.missed, "events": dict(kinds)},
            (outgoing(self.topic, encode_events(tracked)),),
        )

    def _named(self, tracked: CommunityEvents) -> CommunityEvents:
        """Return the events with the names of their communities; one that has ended has none."""
        if self.naming is None or tracked.late:
            return tracked
        names = self.naming.of_events(tracked)
        if self.naming.trouble != self._unnamed_because:
            self._unnamed_because = self.naming.trouble
            structlog.get_logger().warning("names are missing", reason=self.naming.trouble)
        events = (replace(event, name=names.get(event.community)) for event in tracked.events)
        return replace(tracked, events=tuple(events))

    def _read_again(self, graphs: set[str]) -> None:
        """Read the last windows of graphs that were let go of, with those of this worker."""
        structlog.get_logger().info("windows are read again", graphs=len(graphs))
        for graph in graphs:  # first: windows of graphs that were let go of are not taken
            self._recent.put(graph, ())
        self._take_all(self._events(graphs), SeenResults())

    def _take_all(self, events: EventsTopic, seen: SeenResults) -> None:
        for tracked in events.news(seen):
            if tracked.graph not in self._recent.let_go:  # else all its windows are read later
                self._take(tracked)
        for graph in events.left_out:
            self._recent.leave(graph)

    def _take(self, tracked: CommunityEvents | Forgotten) -> None:
        """Add a window of the events topic to those of its graph."""
        graph = tracked.graph
        if isinstance(tracked, Forgotten):
            self._recent.put(graph, ())
        elif self._is_ahead(tracked.window):  # tracked with another limit, or without one
            first_id = self._first_ids.get(graph, 0)
            self._first_ids[graph] = max(first_id, tracked.next_community)
        else:
            recent = remember(self._recent.get(graph), PackedWindow.of(tracked), self.settings)
            self._recent.put(graph, recent)
