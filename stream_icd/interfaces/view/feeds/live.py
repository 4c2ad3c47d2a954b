"""Read the topics into memory, in threads: one reader of each topic for all tabs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import structlog

from stream_icd.core.errors import (
    BadInput,
    BrokerUnavailable,
    OffsetGone,
    StreamIcdError,
    TopicMissing,
)
from stream_icd.core.events import CommunityEvents
from stream_icd.core.printable import printable
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.all_series import AllSeries, News, Publish
from stream_icd.interfaces.view.data.series import SeenWindow, SeriesName
from stream_icd.interfaces.view.feeds.sources import NoGraph, Sources
from stream_icd.kafka.connect import connect
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.port import Admin, TopicPartition, dead_letter_topic
from stream_icd.kafka.reader import Following, Start, open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, LABELS, MODELS, SNAPSHOTS
from stream_icd.streaming.dead_letters.letters import DeadLetter
from stream_icd.streaming.subscribers.seen_results import SeenResults, result_of
from stream_icd.wire.announcements import decode_announcement
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.events import decode_events
from stream_icd.wire.message import place_in_topic
from stream_icd.wire.snapshots import decode_snapshot

_CATCH_UP_S = 30.0  # how long the first read of labels and events may delay that of communities
_END_S = 3.0  # time that the end waits for threads: longer than a poll where nothing comes
_LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Topics:
    communities: str = COMMUNITIES
    events: str = EVENTS
    labels: str = LABELS
    snapshots: str = SNAPSHOTS
    models: str = MODELS


@dataclass(slots=True)
class _SnapshotLag:
    """How many snapshots wait for their results, of all detectors together.

    These are the records of the snapshots topic after the last detected one, in all partitions. A
    partition without any result counts from its beginning.
    """

    waiting: int | None = None  # None until it is known
    some: bool = False  # whether there are snapshots, of a broker that does not tell how many
    trouble: str = ""  # where no broker answers: who reads waits for it, and does not say so
    _next: dict[int, int] = field(default_factory=dict)

    def detected(self, snapshot_place: str) -> None:
        """Note the place of a snapshot that has a result."""
        # The maximum: results come in any order, from several detectors.
        if (place := place_in_topic(snapshot_place)) is not None:
            partition, offset = place
            self._next[partition] = max(self._next.get(partition, 0), offset + 1)

    def watch(self, settings: KafkaSettings, topic: str, stop: threading.Event) -> None:
        """Look every few seconds, until stopped; connect anew after a fault."""
        while not stop.is_set():
            try:
                with connect(settings).admin() as admin:
                    while not stop.is_set():
                        self._look(admin, topic)
                        self.trouble = ""
                        # Where nothing is counted, one record says that there are snapshots.
                        if self.waiting is None and not self.some:
                            self.some = _holds_a_record(settings, topic, stop)
                        stop.wait(_LOOK_EVERY_S)
            except StreamIcdError as error:
                self.waiting = None
                self.trouble = str(error) if isinstance(error, BrokerUnavailable) else ""
                stop.wait(_LOOK_EVERY_S)

    def _look(self, admin: Admin, topic: str) -> None:
        """Note the lag; None if the topic is missing, or the broker does not tell its ends."""
        existing = admin.describe_topic(topic)
        if existing is None or not admin.known_capabilities().exact_end_offsets:
            self.waiting = None
            return
        detected = self._next.copy()  # results come meanwhile, in another thread
        partitions = [TopicPartition(topic, partition) for partition in range(existing.partitions)]
        begins, ends = admin.begins(partitions), admin.ends(partitions)
        waiting = 0
        for partition, end in ends.items():
            if (after := detected.get(partition.partition, 0)) > end:
                after = 0  # the topic was deleted and created again
                self._next.pop(partition.partition, None)
            waiting += max(0, end - max(begins[partition], after))
        self.waiting = waiting


def _holds_a_record(settings: KafkaSettings, topic: str, stop: threading.Event) -> bool:
    try:
        with open_reader(settings, topic, "beginning", "end", limit=1, stop=stop) as records:
            return next(iter(records), None) is not None
    except TopicMissing:
        return False


@dataclass(slots=True)
class Live(Sources):
    """Topics, for as long as the page is served: all graphs or one, from a time on if given."""

    archive = False

    settings: KafkaSettings
    topics: Topics
    seen: AllSeries
    graph: str | None = None
    since: datetime | None = None
    reader: MessageReader = field(default_factory=MessageReader)
    _latest_ms: int = 0  # when the newest result was sent
    _lag: _SnapshotLag = field(default_factory=_SnapshotLag)
    _publish_news: Publish = lambda _: None
    _stop: threading.Event = field(default_factory=threading.Event)
    _results: SeenResults = field(default_factory=SeenResults)
    _followed: list[Following] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    @contextmanager
    def reading(self, publish: Publish) -> Iterator[None]:
        """Read during the block; call `publish` with each new or changed window, in a thread.

        The end waits for the threads, but not for one that connects to a missing broker.
        """
        self._publish_news = publish  # before the first thread, which may publish at once
        labels = self._follow(self.topics.labels, self._label)
        events = self._follow(self.topics.events, self._event)
        self._follow(dead_letter_topic(self.topics.snapshots), self._dead_letter)
        self._follow(self.topics.models, self._announcement, of_graphs=False)
        # Last, as a result with its events and labels is drawn once, not three times.
        self._follow(self.topics.communities, self._result, after=(labels, events))
        watch = partial(self._lag.watch, self.settings, self.topics.snapshots, self._stop)
        self._start_thread("lag", watch)
        try:
            yield
        finally:
            self._stop.set()  # for all threads, before the first is waited for
            deadline = time.monotonic() + _END_S
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))

    def troubles(self) -> dict[str, str]:
        troubles = {topic.topic: topic.trouble for topic in self._followed}
        troubles[self.topics.snapshots] = self._lag.trouble
        return {topic: printable(trouble) for topic, trouble in troubles.items() if trouble}

    def lag(self) -> int | None:
        return self._lag.waiting

    def snapshots_there(self) -> bool:
        return self._lag.some or bool(self._lag.waiting)

    def latest(self) -> datetime | None:
        return datetime.fromtimestamp(self._latest_ms / 1000, UTC) if self._latest_ms else None

    def caught_up(self) -> bool:
        return all(topic.caught_up.is_set() for topic in self._followed)

    def _follow(
        self,
        topic: str,
        on_record: Callable[[Record], None],
        after: tuple[Following, ...] = (),
        *,
        of_graphs: bool = True,
    ) -> Following:
        key = None if self.graph is None or not of_graphs else self.graph.encode()
        take = partial(self._take, on_record, key)
        start: Start = self.since or "beginning"
        followed = Following(self.settings, topic, take, self._stop, start)

        def run() -> None:
            deadline = time.monotonic() + _CATCH_UP_S
            for topic_before in after:
                while not (self._stop.is_set() or topic_before.caught_up.wait(0.1)):
                    if time.monotonic() > deadline:
                        break
            followed.run()

        self._followed.append(followed)
        self._start_thread(topic, run)
        return followed

    def _start_thread(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=f"view {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _take(self, on_record: Callable[[Record], None], key: bytes | None, record: Record) -> None:
        """Leave out other graphs and records before the start; log what is no message."""
        # Producers set the times, which may go backwards: older records may follow the first.
        first_ms = -math.inf if self.since is None else self.since.timestamp() * 1000
        if key not in (None, record.key) or record.timestamp_ms < first_ms:
            return
        try:
            on_record(record)
        except BadInput as error:
            log = structlog.get_logger().bind(topic=record.topic, place=record.place)
            log.warning("not a message of this topic", reason=str(error))

    def _result(self, record: Record) -> None:
        result = result_of(record)
        if record.value is None or result in self._results:
            return
        communities = self.reader.decoded(record, decode_communities)
        self._results.add(result)  # only now: a sound copy may follow a bad one
        self._latest_ms = max(self._latest_ms, record.timestamp_ms)
        self._lag.detected(communities.snapshot_place)  # also of a late result
        self._publish(self.seen.add(communities, self.topics.communities))

    def _event(self, record: Record) -> None:
        if record.value is None:
            self.seen.begin_anew(record.key_text)
            return
        result = result_of(record)
        parts = (*result.name, result.revision)
        graph, snapshot, model, revision = (part.decode(errors="replace") for part in parts)
        size = len(record.value) + sum(len(value) for _, value in record.headers)
        identity = graph, snapshot, model, revision
        self._publish(self.seen.add_events(identity, lambda: self._tracked(record), size))

    def _tracked(self, record: Record) -> CommunityEvents | None:
        try:
            return self.reader.decoded(record, decode_events)
        except StreamIcdError as error:  # the page tracks the communities itself
            log = structlog.get_logger()
            log.warning("not an events message", place=record.place, reason=str(error))
            return None

    def _label(self, record: Record) -> None:
        if record.value is not None:
            for news in self.seen.know(self.reader.decoded(record, decode_labels)):
                self._publish(news)

    def _announcement(self, record: Record) -> None:
        if record.value is not None:
            self.seen.announce(self.reader.decoded(record, decode_announcement))

    def _dead_letter(self, record: Record) -> None:
        self.seen.bury(DeadLetter.of(record))

    def _publish(self, news: News | None) -> None:
        if news is not None:
            self._publish_news(news)

    def read_snapshot(self, name: SeriesName, window: SeenWindow) -> Snapshot:  # noqa: ARG002
        """Read the graph from the place in the topic that the result names."""
        place = place_in_topic(window.result.snapshot_place)
        if place is None:
            raise NoGraph("the result does not say where its snapshot is")
        partition, offset = place
        topic, start, only = self.topics.snapshots, {partition: offset}, {partition}
        try:
            with open_reader(self.settings, topic, start, "end", limit=1, only=only) as records:
                record = next(iter(records), None)
        except OffsetGone as error:
            raise NoGraph("the topic no longer holds the snapshot") from error
        if record is None or record.offset != offset:
            raise NoGraph("the topic does not hold the snapshot")
        return self.reader.decoded(record, decode_snapshot)
