"""The snapshots that a topic already holds, so that a restarted producer continues.

The topic itself is the only state: it holds exactly what was acknowledged, however the producer
ended.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from stream_icd.errors import BadInput
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.topics import SNAPSHOTS
from stream_icd.snapshot import Snapshot
from stream_icd.times import utc_now
from stream_icd.tracking.settings import too_far_ahead
from stream_icd.wire.cloudevents import EventHeaders, graph_of
from stream_icd.wire.limits import Limits
from stream_icd.wire.snapshots import SNAPSHOT_TYPE

Name = tuple[str, str]
"""Source and id, which identify an event in CloudEvents."""


@dataclass(frozen=True, slots=True)
class SentBefore:
    """The snapshots of a topic, by their headers.

    Attributes:
        names: source and id of each graph's snapshots, with the hash of the current content; empty
            if the producer did not send it.
        ends: the latest window end of each graph, except windows too far ahead of `now`.
        now: when the topic was read.
        limits: maximum sizes of a message.
        correct: whether a snapshot that is there with other content counts as missing.
    """

    names: dict[str, dict[Name, str]] = field(default_factory=lambda: defaultdict(dict))
    ends: dict[str, datetime] = field(default_factory=dict)
    now: datetime = field(default_factory=utc_now)
    limits: Limits = field(default_factory=Limits)
    correct: bool = False

    def __contains__(self, snapshot: object) -> bool:
        """Return whether the topic holds this snapshot: same graph, source and id."""
        if not isinstance(snapshot, Snapshot) or self._content(snapshot) is None:
            return False
        return not (self.correct and self.is_changed(snapshot))

    def is_changed(self, snapshot: Snapshot) -> bool:
        """Return whether the topic holds the snapshot with other content."""
        return self._content(snapshot) not in (None, "", snapshot.content)

    def _content(self, snapshot: Snapshot) -> str | None:
        return self.names.get(snapshot.graph, {}).get((snapshot.source, snapshot.id))

    def add(self, record: Record) -> None:
        """Add a record; records that are not snapshots are ignored."""
        try:
            fields = EventHeaders(record.headers, SNAPSHOT_TYPE, self.limits, BadInput)
            graph = graph_of(record.key, self.limits, BadInput)
            name, window = (fields.text("ce_source"), fields.text("ce_id")), fields.window()
        except BadInput:
            return
        self.names[graph][name] = fields.optional("icd_content") or ""
        if not too_far_ahead(window, self.now):
            self.ends[graph] = max(window.end, self.ends.get(graph, window.end))


def read_sent_before(
    settings: KafkaSettings, topic: str = SNAPSHOTS, *, correct: bool = False
) -> SentBefore:
    """Read all of `topic`; return the snapshots that it holds now.

    Args:
        correct: see `SentBefore`.

    Raises:
        TopicMissing, BrokerUnavailable: see these classes.
    """
    found = SentBefore(correct=correct)
    with open_reader(settings, topic, until="end") as records:
        for record in records:
            found.add(record)
    return found
