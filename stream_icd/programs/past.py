"""Options that commands for archived snapshots share."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from stream_icd.programs.declared import option, options
from stream_icd.programs.options import OnlyGraph, Rate

if TYPE_CHECKING:
    from stream_icd.history.archive import Selection
    from stream_icd.history.files import Kind
    from stream_icd.kafka.settings import KafkaSettings
    from stream_icd.messages.topic_range import TopicRange
    from stream_icd.replay.pacing import Tempo

First = Annotated[
    str | None, Option("--from", help="Only windows that begin at this time or later.")
]

Last = Annotated[str | None, Option("--to", help="Only windows that begin before this time.")]


@options
class PastOptions:
    """Which windows of an archive."""

    first: First = None
    last: Last = None
    graph: OnlyGraph = None

    def selection(self, kind: "Kind" = "snapshots") -> "Selection":
        """Return what is selected; raise `BadSettings` if a time is none."""
        from stream_icd.history.archive import Selection

        start, end = parse_time("--from", self.first), parse_time("--to", self.last)
        return Selection(kind, self.graph, start=start, end=end)


ArchiveUri = Annotated[
    str, Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
]


@options
class PartOptions:
    """Which part of a topic."""

    first: str | None = option(
        None, "Start: a time, an offset, or PARTITION:OFFSET,…. Default: the beginning.", "--from"
    )
    last: str | None = option(None, "End (not included), see --from. Default: the end.", "--to")

    def part(self, settings: "KafkaSettings", topic: str) -> "TopicRange":
        """Return what is selected of a topic; raise `BadSettings` if it is no such part."""
        from stream_icd.kafka.topics import describe_topic
        from stream_icd.messages.topic_range import TopicRange, parse_position

        n = describe_topic(settings, topic).partitions
        start, end = parse_position("--from", self.first, n), parse_position("--to", self.last, n)
        return TopicRange(topic, start, end)


@options
class TempoOptions:
    """How fast the past passes."""

    speed: str | None = option(None, "Replay at this multiple of real time, such as 10x.")
    rate: Rate = None
    fastest: bool = option(False, "Do not wait between windows (default).", "--as-fast-as-possible")

    def tempo(self) -> "Tempo":
        """Return the tempo; raise `BadSettings` if the options exclude each other."""
        from stream_icd.replay.pacing import parse_tempo

        return parse_tempo(self.speed, self.rate, fastest=self.fastest)


def parse_time(option: str, text: str | None) -> datetime | None:
    """Parse a time, or a date, which means its beginning; the default zone is UTC."""
    from stream_icd.times import time_of_option

    forms = "a day or a time, such as 2026-01-31T12:00:00Z"
    return None if text is None else time_of_option(option, text, forms)
