"""A range of a topic, between two times or offsets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime

from stream_icd.core.errors import BadSettings
from stream_icd.core.times import time_of_option
from stream_icd.kafka.reader import TopicReader
from stream_icd.kafka.record import Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop

_Position = datetime | dict[int, int] | None
"""A time (record timestamps); an offset for each partition; None for the beginning or end."""


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The records from `start` to `end`, exclusive.

    If a position names partitions, only those are read.

    Raises:
        BadSettings: the end is before the start, or both name partitions, and these differ.
    """

    topic: str
    start: _Position = None
    end: _Position = None

    def __post_init__(self) -> None:
        named = [set(at) for at in (self.start, self.end) if isinstance(at, dict)]
        if any(partitions != named[0] for partitions in named):
            raise BadSettings("--from and --to name different partitions: give the same ones")
        if _is_reversed(self.start, self.end):
            start, end = self.said()
            raise BadSettings(f"--to is before --from: {end} before {start}")

    @classmethod
    def of_options(cls, topic: str, first: str | None, last: str | None, n: int) -> TopicRange:
        """Return what `--from` and `--to` select of a topic of `n` partitions.

        Each is `OFFSET`, `PARTITION:OFFSET,…`, or a date or time (UTC by default).

        Raises:
            BadSettings: a text is none of these, a single offset for several partitions, or names a
                partition twice, or one that the topic does not have, or may be a day as well.
        """
        return cls(topic, _parsed("--from", first, n), _parsed("--to", last, n))

    def said(self) -> tuple[str, str]:
        """The start and the end as options have them; "" for the beginning and the end.

        >>> TopicRange("t", {0: 120, 3: 40}).said()
        ('0:120,3:40', '')
        """
        return _said(self.start), _said(self.end)

    @contextmanager
    def read(
        self, settings: KafkaSettings, stop: Stop | None = None, *, from_beginning: bool = False
    ) -> Iterator[Iterator[Record]]:
        """Give the records of the range that the topic holds now, until `stop`.

        Args:
            from_beginning: also give the records before the range, in its partitions.

        Raises:
            TopicMissing, OffsetGone, BrokerUnavailable, BadSettings: see `open_reader`.
        """
        with closing(TopicReader(settings, self.topic, stop)) as reader:
            records = reader.records("beginning" if self.start is None else self.start, "end")
            if from_beginning:  # the topic holds the start, too, or it would have been an error
                records = reader.records("beginning", "end")
            yield (
                record
                for record in records
                if self.holds(record) or (from_beginning and self.precedes(record))
            )

    def precedes(self, record: Record) -> bool:
        """Return whether a record is before the range, in one of its partitions."""
        return self._names(record) and self.start is not None and _is_before(record, self.start)

    def holds(self, record: Record) -> bool:
        """Return whether a record of the topic is in the range."""
        return (
            self._names(record)
            and not self.precedes(record)
            and (self.end is None or _is_before(record, self.end))
        )

    def _names(self, record: Record) -> bool:
        positions = (self.start, self.end)
        return all(record.partition in at for at in positions if isinstance(at, dict))


def _is_reversed(start: _Position, end: _Position) -> bool:
    if isinstance(start, datetime) and isinstance(end, datetime):
        return end < start
    if isinstance(start, dict) and isinstance(end, dict):
        return any(end[partition] < offset for partition, offset in start.items())
    return False


def _is_before(record: Record, position: datetime | dict[int, int]) -> bool:
    if isinstance(position, datetime):
        return record.timestamp_ms < position.timestamp() * 1000
    return record.offset < position[record.partition]


def _said(position: _Position) -> str:
    if isinstance(position, dict):
        return ",".join(f"{partition}:{offset}" for partition, offset in position.items())
    return str(position or "")


def _parsed(option: str, text: str | None, n_partitions: int) -> _Position:
    if text is None:
        return None
    if day := re.fullmatch(r"((?:19|20)\d\d)(0[1-9]|1[0-2])([0-2]\d|3[01])", text):
        raise BadSettings(
            f"{option} {text}: write {'-'.join(day.groups())} for the day, 0:{text} for the offset"
        )
    if re.fullmatch(r"\d+", text):
        if n_partitions > 1:
            raise BadSettings(
                f"{option} {text}: the topic has {n_partitions} partitions; name them, such as "
                f"0:{text},1:{text}"
            )
        return {0: int(text)}
    if re.fullmatch(r"\d+:\d+(,\d+:\d+)*", text):
        pairs = [pair.split(":") for pair in text.split(",")]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        if len(offsets) < len(pairs):
            raise BadSettings(f"{option} {text} names a partition twice: give one offset for each")
        if max(offsets) >= n_partitions:
            raise BadSettings(
                f"{option} {text}: the topic has no partition {max(offsets)}; its partitions are "
                f"0 to {n_partitions - 1}"
            )
        return offsets
    forms = "a time such as 2026-01-31T12:00:00Z, an offset, or PARTITION:OFFSET[,PARTITION:OFFSET]"
    return time_of_option(option, text, forms)
