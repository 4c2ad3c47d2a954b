"""Alerts of a stream: reads events, applies rules, publishes each alert once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from stream_icd.core.errors import BadInput
from stream_icd.core.events import CommunityEvents
from stream_icd.core.times import utc_now
from stream_icd.kafka.messages.claims import MessageReader
from stream_icd.kafka.messages.records import Outcome, Processed, Refused, outgoing
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import ALERTS, EVENTS
from stream_icd.methods.tracking.alerts import Alerting
from stream_icd.methods.tracking.packed import PackedWindow
from stream_icd.streaming.execution.budget import MemorySettings
from stream_icd.streaming.subscribers.events_topic import EventsTopic, Forgotten
from stream_icd.streaming.subscribers.seen_results import SeenResults
from stream_icd.streaming.workers.recent_windows import Recent, RecentWindows, Unpacked
from stream_icd.streaming.workers.step import Step
from stream_icd.wire.alerts import Alert, encode_alert, source_of_alerts
from stream_icd.wire.events import decode_events

_MOST_IDS = 100_000
"""Alerts whose ids are remembered, so that none is published twice: 20 MB."""


class _PublishedAlerts:
    """The ids of the last alerts of a group."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()

    def is_new(self, id: str) -> bool:
        """Add an alert; return False if it was there before."""
        if id in self._ids:
            return False
        self._ids[id] = None
        if len(self._ids) > _MOST_IDS:
            self._ids.popitem(last=False)
        return True

    def read(self, settings: KafkaSettings, topic: str, source: str) -> None:
        """Add the alerts that the topic holds, also those of transactions that are about to end."""
        with open_reader(settings, topic, until="settled") as records:
            for record in records:
                headers = dict(record.headers)
                if headers.get("ce_source") == source.encode():
                    self.is_new(headers.get("ce_id", b"").decode(errors="replace"))


def _with_window(recent: Recent, window: CommunityEvents, most: int) -> Recent | None:
    """Return the last windows of a graph with one more, or with a revision of the last one.

    None: the window was there before, or is late.
    """
    if window.late:
        return None
    if recent:
        last = recent[-1]
        if last.identity() == window.identity():
            return None
        if last.identity()[:3] == window.identity()[:3]:
            return (*recent[:-1], PackedWindow.of(window))
        if window.window.end <= last.about.window.end:
            return None
    return (*recent, PackedWindow.of(window))[-most:]


def past_alerts(
    alerting: Alerting, windows: Iterable[CommunityEvents]
) -> Iterator[tuple[CommunityEvents, list[Alert]]]:
    """Yield each window that is not late or repeated, and its alerts, each once."""
    published, unpacked = _PublishedAlerts(), Unpacked()
    graphs: dict[str, Recent] = {}
    for window in windows:
        recent = _with_window(graphs.get(window.graph, ()), window, alerting.windows)
        if recent is not None:
            graphs[window.graph] = recent
            alerts = alerting.alerts(unpacked.all(recent))
            yield window, [alert for alert in alerts if published.is_new(alert.id)]


@dataclass(eq=False)
class Alerts(Step):
    """Publishes the alerts of each window, with the group's position in one transaction.

    Its state is in topics: the windows before the group's position in the events topic, and the
    ids of the alerts. It reads both whenever partitions are assigned, or a batch has failed. Raises
    `TopicMissing` or `BrokerUnavailable` if it cannot.
    """

    stages = ("alert",)

    kafka: KafkaSettings
    alerting: Alerting
    oldest: timedelta = timedelta(days=1)  # no alerts of events that were published before
    graph: str | None = None  # remember only this graph; None: all
    topic: str = EVENTS
    out: str = ALERTS
    reader: MessageReader = field(default_factory=MessageReader)
    memory: MemorySettings = field(default_factory=MemorySettings)

    def __post_init__(self) -> None:
        self.assigned(())

    def assigned(self, partitions: Collection[int]) -> None:  # noqa: ARG002
        self._recent = RecentWindows[PackedWindow](self.memory.cache_bytes)
        self._unpacked = Unpacked()
        self._restored: set[int] = set()
        # Read anew, too: what a batch has added that failed was not published.
        self._published: _PublishedAlerts | None = None

    def begin(self, records: Sequence[Record]) -> None:
        """Read what was before the first records of partitions that are new here."""
        first: dict[int, int] = {}
        for record in records:
            if record.partition not in self._restored:
                first.setdefault(record.partition, record.offset)
        if first:
            self._restore(first, None if self.graph is None else {self.graph})
            self._restored.update(first)

    def process(self, record: Record) -> Outcome:
        """Return the alerts of a window that were not published before."""
        if record.value is None:
            self._recent.put(record.key_text, ())
            return Processed("the graph starts anew")
        try:
            window = self.reader.decoded(record, decode_events)
        except BadInput as error:
            return Refused("alert", error)
        if window.graph in self._recent.let_go:
            self._restore({record.partition: record.offset}, {window.graph})
        recent = _with_window(self._recent.get(window.graph), window, self.alerting.windows)
        if recent is None:
            return Processed("late, or seen before")
        self._recent.put(window.graph, recent)
        new = self._new(recent)
        if new and self._is_too_old(record):
            structlog.get_logger().warning("too old for alerts", alerts=len(new))
            return Processed("too old for alerts", {"alerts": len(new)})
        sent = tuple(outgoing(self.out, encode_alert(alert)) for alert in new)
        return Processed("alerts", {"alerts": len(new)}, sent)

    def _new(self, recent: Recent) -> list[Alert]:
        """Return the alerts that the last window gives, without those published before."""
        if self._published is None:
            self._published = _PublishedAlerts()
            source = source_of_alerts(self.alerting.group)
            self._published.read(self.kafka, self.out, source)
        alerts = self.alerting.alerts(self._unpacked.all(recent))
        return [alert for alert in alerts if self._published.is_new(alert.id)]

    def _is_too_old(self, record: Record) -> bool:
        age_ms = 1000 * utc_now().timestamp() - record.timestamp_ms
        return age_ms > 1000 * self.oldest.total_seconds()

    def _restore(self, before: dict[int, int], graphs: Collection[str] | None) -> None:
        """Read the last windows of graphs before these offsets of the events topic."""
        ends = {partition: offset for partition, offset in before.items() if offset > 0}
        if not ends:
            return
        windows, most_bytes = self.alerting.windows, self.memory.cache_bytes
        events = EventsTopic(
            self.kafka, self.topic, graphs, windows, self.reader, most_bytes, before=ends
        )
        # Also graphs without windows, which would be read again for each record.
        for graph in graphs or ():
            self._recent.put(graph, ())
        for window in events.news(SeenResults()):
            if isinstance(window, Forgotten):
                self._recent.put(window.graph, ())
            elif recent := _with_window(self._recent.get(window.graph), window, windows):
                self._recent.put(window.graph, recent)
        for graph in events.left_out:
            self._recent.leave(graph)
