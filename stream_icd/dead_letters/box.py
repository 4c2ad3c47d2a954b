"""What a dead-letter topic holds: which records, why, and which of them were sent again.

A record that several workers could not read, or one more than once, has several dead letters.

The topic is the only state. A dead letter that was sent again is marked in it by a record that
comes after it in its partition, so all of a topic is read to know what was not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from stream_icd.dead_letters.letters import ATTEMPT, ORIGIN, count_of, split_headers
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.stop import Stop

RETRIED = "icd_dlq_retried"
RETRIED_AT = "icd_dlq_retried_at"
RETRIED_TO = "icd_dlq_retried_to"

CALENDAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""The first and the last day that a record's timestamp, any 64 bits, is shown as."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What is known of a record that was dead-lettered; all but its value.

    Attributes:
        headers: as its producer sent them.
        added: why it was dead-lettered: the headers that were added, by name.
        size: bytes of its value; None where that is null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    headers: Headers
    added: Mapping[str, str]
    size: int | None

    @property
    def place(self) -> str:
        """Where it is, as lists and error messages say it."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def came_from(self) -> str | None:
        """Where it was read before it was dead-lettered, as that reader's log says it."""
        parts = (self.added.get(f"icd_dlq_{name}") for name in ("topic", "partition", "offset"))
        topic, partition, offset = parts
        return f"{topic}[{partition}]@{offset}" if topic else None

    @property
    def origin(self) -> str:
        """Where the record lay when first dead-lettered: the same for all its dead letters."""
        return self.added.get(ORIGIN) or self.came_from or self.place

    @property
    def at(self) -> datetime:
        """When it was dead-lettered; a time that no calendar has is the first or last of ours."""
        first, last = (round(one.timestamp() * 1000) for one in CALENDAR)
        return datetime.fromtimestamp(min(max(self.timestamp_ms, first), last) / 1000, UTC)

    @property
    def graph(self) -> str | None:
        """The graph's name, where the key is one."""
        return _text(self.key)

    @property
    def snapshot_id(self) -> str | None:
        """The id of its event, where there is one that can be read."""
        return _text(dict(self.headers).get("ce_id"))

    @property
    def stage(self) -> str:
        """What was being done with it."""
        return self.added.get("icd_dlq_stage", "")

    @property
    def exception(self) -> str:
        """The kind of error."""
        return self.added.get("icd_dlq_exception", "")

    @property
    def message(self) -> str:
        """What is wrong."""
        return self.added.get("icd_dlq_message", "")

    @property
    def attempt(self) -> int:
        """How many times it has been dead-lettered, this time included."""
        return max(1, count_of(self.added.get(ATTEMPT, "")))


@dataclass(frozen=True, slots=True)
class BadRecord:
    """One record that was dead-lettered.

    Attributes:
        letters: its dead letters, at least one, in the order in which they are read.
        retried: each time that it was sent again.
    """

    letters: Sequence[DeadLetter]
    retried: Sequence[Retried] = ()

    @property
    def origin(self) -> str:
        """Where it lay when it was first dead-lettered."""
        return self.letters[0].origin

    @property
    def first(self) -> DeadLetter:
        """The dead letter to send again: one of the very record that lay there, if it is left.

        Where a record lay, its worker says; that another was that record before, its producer may
        say of anything.
        """
        return next((one for one in self.letters if one.came_from == self.origin), self.letters[0])

    @property
    def latest(self) -> DeadLetter:
        """The last one."""
        return max(self.letters, key=lambda one: (one.attempt, one.timestamp_ms, one.offset))

    @property
    def attempt(self) -> int:
        """How many times it has been tried and dead-lettered."""
        return self.latest.attempt

    @property
    def stages(self) -> tuple[str, ...]:
        """What was being done with it, by any of its workers."""
        return tuple(dict.fromkeys(one.stage for one in self.letters))

    @property
    def was_sent_again(self) -> bool:
        """Whether it was, also where retention has removed the marker."""
        return bool(self.retried) or self.attempt > 1


@dataclass(frozen=True, slots=True)
class Retried:
    """When a dead letter was sent again, and to which topic."""

    at: str
    to: str


@dataclass(frozen=True, slots=True)
class DeadLetterBox:
    """The dead letters of a topic, in the order in which they are read, and what came of them.

    Attributes:
        retried: for the origins of those that were sent again: each time.
    """

    letters: Sequence[DeadLetter]
    retried: Mapping[str, Sequence[Retried]]

    @property
    def records(self) -> list[BadRecord]:
        """The records that were dead-lettered, in the order of their first dead letters."""
        by_origin: dict[str, list[DeadLetter]] = {}
        for letter in self.letters:
            by_origin.setdefault(letter.origin, []).append(letter)
        return [BadRecord(found, self.retried.get(at, ())) for at, found in by_origin.items()]


def dead_letter_of(record: Record) -> DeadLetter:
    """What is known of a record of a dead-letter topic."""
    headers, added = split_headers(record.headers)
    size = None if record.value is None else len(record.value)
    stamp = record.timestamp_ms
    return DeadLetter(
        record.topic, record.partition, record.offset, stamp, record.key, headers, added, size
    )


def retried_marker(letter: DeadLetter, to: str, at: datetime) -> OutgoingRecord:
    """The record that says, in the dead letter's own partition, that it was sent again."""
    said = {
        RETRIED: letter.origin,
        RETRIED_AT: at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        RETRIED_TO: to,
    }
    return OutgoingRecord(
        topic=letter.topic,
        key=letter.key,
        value=b"",  # not null: that would delete what has this key, were the topic compacted
        headers=tuple((name, text.encode()) for name, text in said.items()),
        partition=letter.partition,
    )


def read_dead_letters(
    settings: KafkaSettings,
    topic: str,
    until: Literal["end", "settled"] = "end",
    stop: Stop | None = None,
) -> DeadLetterBox:
    """All that the dead-letter topic `topic` holds; their values are not kept.

    Args:
        until: as `open_reader`'s.
        stop: read no further once it is set.

    Raises:
        TopicMissing, BrokerUnavailable: as their texts say.
    """
    letters: list[DeadLetter] = []
    retried: dict[str, list[Retried]] = {}
    with open_reader(settings, topic, until=until, stop=stop) as records:
        for record in records:
            if (mark := marked(record)) is None:
                letters.append(dead_letter_of(record))
            else:
                retried.setdefault(mark[0], []).append(mark[1])
    return DeadLetterBox(letters, retried)


def read_again(
    settings: KafkaSettings, letters: Collection[DeadLetter], stop: Stop | None = None
) -> Iterator[tuple[DeadLetter, Record]]:
    """Some dead letters of one topic, one after the other, each as the record that came.

    What retention has removed meanwhile is not among them, nor what comes after `stop` is set.

    Raises:
        TopicMissing, BrokerUnavailable: as their texts say.
    """
    wanted = {letter.place: letter for letter in letters}
    if not wanted:
        return
    (topic,) = {letter.topic for letter in letters}
    with open_reader(settings, topic, until="end", stop=stop) as records:
        for record in records:
            if record.place in wanted:
                letter = wanted.pop(record.place)
                yield letter, replace(record, headers=letter.headers)
            if not wanted:
                return


def marked(record: Record) -> tuple[str, Retried] | None:
    """What a marker says: of which record, by its origin, and what came of it."""
    headers = dict(record.headers)
    if record.value or RETRIED not in headers or split_headers(record.headers)[1]:
        return None
    at, to = (_text(headers.get(name)) or "?" for name in (RETRIED_AT, RETRIED_TO))
    return _text(headers[RETRIED]) or "", Retried(at, to)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
