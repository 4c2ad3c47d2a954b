"""The options that all subscriptions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from stream_icd.errors import BadInput, BadSettings
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.messages.reader import MessageReader
from stream_icd.tracking.gaps import Gap

Start = Literal["beginning", "latest"] | datetime
Until = Literal["forever", "end"]
Revisions = Literal["newest", "all"]
OnBad = Callable[[Record, BadInput], None]
OnGap = Callable[[Gap], None]


def log_bad(record: Record, error: BadInput) -> None:
    """Log a message that does not belong in its topic."""
    import structlog  # rarely needed, and a tenth of the startup time

    structlog.get_logger().warning(
        "not a message of this topic",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=str(error),
    )


def log_gap(gap: Gap) -> None:
    """Log windows that are missing."""
    import structlog

    structlog.get_logger().warning("windows are missing", graph=gap.graph, gap=str(gap))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which results to read, from where, and how to report errors; see `subscribe`.

    Raises:
        BadSettings: the options exclude each other.
    """

    topic: str
    graph: str | None = None
    model: str | None = None
    start: Start | None = None
    until: Until = "forever"
    limit: int | None = None
    group: str | None = None
    revisions: Revisions = "newest"
    settings: KafkaSettings = field(default_factory=KafkaSettings)
    reader: MessageReader = field(default_factory=MessageReader)
    on_bad: OnBad = log_bad
    on_gap: OnGap = log_gap

    def __post_init__(self) -> None:
        if self.group is not None and (self.start is not None or self.until == "end"):
            raise BadSettings(
                f"group {self.group!r} continues at its position and does not end: leave out start "
                f"(--from) and until (--until), or the group"
            )

    def want(self, record: Record) -> bool:
        """Return whether a record is requested, by its key and its headers."""
        if self.graph is not None and record.key != self.graph.encode():
            return False
        if self.model is None:
            return True
        version = dict(record.headers).get("icd_model", b"").decode(errors="replace")
        return self.model in (version, version.rpartition("@")[0])
