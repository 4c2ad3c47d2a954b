"""Read the topics into memory, in threads: one reader of each topic for all tabs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from stream_icd.dead_letters.letters import split_headers
from stream_icd.errors import BadInput, StreamIcdError
from stream_icd.events import CommunityEvents
from stream_icd.kafka.port import dead_letter_topic
from stream_icd.kafka.reader import Following, Start
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import COMMUNITIES, EVENTS, LABELS, MODELS, SNAPSHOTS
from stream_icd.messages.claims import MessageReader
from stream_icd.printable import printable, shortened
from stream_icd.subscribers.seen_results import SeenResults, result_of
from stream_icd.view.data.all_series import AllSeries, DeadLetter, News
from stream_icd.view.feeds.lag import Lag
from stream_icd.wire.announcements import decode_announcement
from stream_icd.wire.communities import decode_communities, decode_labels
from stream_icd.wire.events import decode_events

CATCH_UP_S = 30.0
"""How long the first read of labels and events may delay that of communities."""

END_S = 3.0
"""Time that the end waits for threads: longer than a poll where nothing comes."""

LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, which is as far as times go."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of the topics to read."""

    communities: str = COMMUNITIES
    events: str = EVENTS
    labels: str = LABELS
    snapshots: str = SNAPSHOTS
    models: str = MODELS


@dataclass(slots=True)
class Live:
    """Reads topics until stopped.

    Attributes:
        seen: where results go.
        graph: only this graph; None for all.
        start: position of the first record, or time of the first result.
        lag: snapshots that wait for their results.
    """

    settings: KafkaSettings
    topics: Topics
    seen: AllSeries
    reader: MessageReader = field(default_factory=MessageReader)
    graph: str | None = None
    start: Start = "beginning"
    stop: threading.Event = field(default_factory=threading.Event)
    lag: Lag = field(default_factory=Lag)
    _publish_news: Callable[[News], None] = lambda _: None
    _results: SeenResults = field(default_factory=SeenResults)
    _followed: list[Following] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, publish: Callable[[News], None]) -> None:
        """Start reading; call `publish` with each new or changed window, in the reading thread."""
        self._publish_news = publish
        labels = self._follow(self.topics.labels, self._label)
        events = self._follow(self.topics.events, self._event)
        self._follow(dead_letter_topic(self.topics.snapshots), self._dead_letter)
        self._follow(self.topics.models, self._announcement, of_graphs=False)
        self._follow(self.topics.communities, self._result, after=(labels, events))
        watching = threading.Thread(
            target=self.lag.watch,
            args=(self.settings, self.topics.snapshots, self.stop),
            name="view lag",
            daemon=True,
        )
        self._threads.append(watching)
        watching.start()

    def end(self) -> None:
        """Stop reading; wait for the threads, but not for one that connects to a missing broker."""
        self.stop.set()
        deadline = time.monotonic() + END_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def troubles(self) -> dict[str, str]:
        """Return why a topic is not read at the moment, by topic."""
        return {one.topic: printable(one.trouble) for one in self._followed if one.trouble}

    def caught_up(self) -> bool:
        """Whether all that the topics held at first was read."""
        return all(one.caught_up.is_set() for one in self._followed)

    def _follow(
        self,
        topic: str,
        on_record: Callable[[Record], None],
        after: tuple[Following, ...] = (),
        *,
        of_graphs: bool = True,
    ) -> Following:
        guarded = self._guarded(on_record, of_graphs=of_graphs)
        one = Following(self.settings, topic, guarded, self.stop, self.start)

        def run() -> None:
            deadline = time.monotonic() + CATCH_UP_S
            for other in after:
                while not (self.stop.is_set() or other.caught_up.wait(0.1)):
                    if time.monotonic() > deadline:
                        break
            one.run()

        thread = threading.Thread(target=run, name=f"view {topic}", daemon=True)
        self._followed.append(one)
        self._threads.append(thread)
        thread.start()
        return one

    def _guarded(
        self, on_record: Callable[[Record], None], *, of_graphs: bool
    ) -> Callable[[Record], None]:
        """Leave out other graphs and records before the start; log what is no message."""
        key = None if self.graph is None or not of_graphs else self.graph.encode()
        first_ms = self.start.timestamp() * 1000 if isinstance(self.start, datetime) else None

        def on_chosen(record: Record) -> None:
            if key not in (None, record.key):
                return
            if first_ms is not None and record.timestamp_ms < first_ms:
                return
            try:
                on_record(record)
            except BadInput as error:
                structlog.get_logger().warning(
                    "not a message of this topic",
                    topic=record.topic,
                    place=record.place,
                    reason=str(error),
                )

        return on_chosen

    def _result(self, record: Record) -> None:
        if record.value is None or result_of(record) in self._results:
            return
        found = self.reader.decoded(record, decode_communities)
        self._results.add(result_of(record))
        self.lag.detected(found.snapshot_place)
        self._publish(self.seen.add(found, self.topics.communities))

    def _event(self, record: Record) -> None:
        if record.value is None:
            self.seen.begin_anew((record.key or b"").decode(errors="replace"))
            return
        headers = dict(record.headers)
        names = ("icd_snapshot_id", "icd_model", "icd_revision")
        said = [headers.get(name, b"").decode(errors="replace") for name in names]
        graph = (record.key or b"").decode(errors="replace")
        identity = graph, said[0], said[1], said[2]
        size = len(record.value) + sum(len(value) for _, value in record.headers)
        self._publish(self.seen.add_events(identity, lambda: self._tracked(record), size))

    def _tracked(self, record: Record) -> CommunityEvents | None:
        try:
            return self.reader.decoded(record, decode_events)
        except StreamIcdError as error:  # the page tracks the communities itself
            structlog.get_logger().warning(
                "not an events message", place=record.place, reason=str(error)
            )
            return None

    def _label(self, record: Record) -> None:
        if record.value is not None:
            for news in self.seen.know(self.reader.decoded(record, decode_labels)):
                self._publish(news)

    def _announcement(self, record: Record) -> None:
        if record.value is not None:
            self.seen.announce(self.reader.decoded(record, decode_announcement))

    def _dead_letter(self, record: Record) -> None:
        said = split_headers(record.headers)[1]
        self.seen.bury(
            DeadLetter(
                graph=shortened(record.key or b""),
                at=_time(record.timestamp_ms),
                stage=shortened(said.get("icd_dlq_stage", "")),
                exception=shortened(said.get("icd_dlq_exception", "")),
                message=shortened(said.get("icd_dlq_message", ""), 500),
                place=record.place,
            )
        )

    def _publish(self, news: News | None) -> None:
        if news is not None:
            self._publish_news(news)


def _time(timestamp_ms: int) -> datetime:
    """Return the time of a record; a producer may write any number there."""
    return datetime.fromtimestamp(min(max(0, timestamp_ms), LATEST_MS) / 1000, UTC)
