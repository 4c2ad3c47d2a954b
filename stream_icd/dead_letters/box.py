"""Contents of a dead-letter topic: which records, why, and which of them were resent.

A record has several dead letters if several workers could not read it, or one failed repeatedly.

The topic is the only state. A resent dead letter is marked by a later record in its partition, so
the whole topic must be read to find those that were not resent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from stream_icd.dead_letters.letters import ATTEMPT, ORIGIN, count_of, split_headers
from stream_icd.kafka.clock import Stop
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import Headers, OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings

RETRIED = "icd_dlq_retried"
RETRIED_AT = "icd_dlq_retried_at"
RETRIED_TO = "icd_dlq_retried_to"

CALENDAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Range of days shown for a record's timestamp, which may be any 64-bit number."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead-lettered record, without its value.

    Attributes:
        headers: the producer's headers.
        added: the added headers, by name, which say why it was dead-lettered.
        size: size of its value in bytes; None if the value is null.
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
        """Position of the dead letter, as in lists and error messages."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def came_from(self) -> str | None:
        """Position of the dead-lettered record, as in its worker's log."""
        parts = (self.added.get(f"icd_dlq_{name}") for name in ("topic", "partition", "offset"))
        topic, partition, offset = parts
        return f"{topic}[{partition}]@{offset}" if topic else None

    @property
    def origin(self) -> str:
        """Position of the record when first dead-lettered: the same for all its dead letters."""
        return self.added.get(ORIGIN) or self.came_from or self.place

    @property
    def at(self) -> datetime:
        """When it was dead-lettered; a time out of range becomes the first or last valid time."""
        first, last = (round(one.timestamp() * 1000) for one in CALENDAR)
        return datetime.fromtimestamp(min(max(self.timestamp_ms, first), last) / 1000, UTC)

    @property
    def graph(self) -> str | None:
        """The graph's name, if the key is valid."""
        return _text(self.key)

    @property
    def snapshot_id(self) -> str | None:
        """The CloudEvents id, if it can be read."""
        return _text(dict(self.headers).get("ce_id"))

    @property
    def stage(self) -> str:
        return self.added.get("icd_dlq_stage", "")

    @property
    def exception(self) -> str:
        return self.added.get("icd_dlq_exception", "")

    @property
    def message(self) -> str:
        return self.added.get("icd_dlq_message", "")

    @property
    def attempt(self) -> int:
        """How many times it has been dead-lettered, including this one."""
        return max(1, count_of(self.added.get(ATTEMPT, "")))


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that was dead-lettered.

    Attributes:
        letters: its dead letters, at least one, in the order in which they are read.
        retried: every time that it was resent.
    """

    letters: Sequence[DeadLetter]
    retried: Sequence[Retried] = ()

    @property
    def origin(self) -> str:
        """Position of the record when it was first dead-lettered."""
        return self.letters[0].origin

    @property
    def first(self) -> DeadLetter:
        """The dead letter to resend: one of the record at the origin itself, if there still is one.

        The worker sets the position of a dead-lettered record. A producer can claim any
        origin for its record.
        """
        return next((one for one in self.letters if one.came_from == self.origin), self.letters[0])

    @property
    def latest(self) -> DeadLetter:
        return max(self.letters, key=lambda one: (one.attempt, one.timestamp_ms, one.offset))

    @property
    def attempt(self) -> int:
        """How many times it has been dead-lettered."""
        return self.latest.attempt

    @property
    def stages(self) -> tuple[str, ...]:
        """The processing stages that failed, for all of its workers."""
        return tuple(dict.fromkeys(one.stage for one in self.letters))

    @property
    def was_sent_again(self) -> bool:
        """Whether it was resent, even if retention has deleted the marker."""
        return bool(self.retried) or self.attempt > 1


@dataclass(frozen=True, slots=True)
class Retried:
    """When a dead letter was resent, and to which topic."""

    at: str
    to: str


@dataclass(frozen=True, slots=True)
class DeadLetterBox:
    """The dead letters of a topic, in the order in which they are read, and their retries.

    Attributes:
        retried: for each origin of a resent record, all times that it was resent.
    """

    letters: Sequence[DeadLetter]
    retried: Mapping[str, Sequence[Retried]]

    @property
    def records(self) -> list[BadRecord]:
        """The dead-lettered records, in the order of their first dead letters."""
        by_origin: dict[str, list[DeadLetter]] = {}
        for letter in self.letters:
            by_origin.setdefault(letter.origin, []).append(letter)
        return [BadRecord(found, self.retried.get(at, ())) for at, found in by_origin.items()]


def dead_letter_of(record: Record) -> DeadLetter:
    """Return the dead letter in a record of a dead-letter topic."""
    headers, added = split_headers(record.headers)
    size = None if record.value is None else len(record.value)
    stamp = record.timestamp_ms
    return DeadLetter(
        record.topic, record.partition, record.offset, stamp, record.key, headers, added, size
    )


def retried_marker(letter: DeadLetter, to: str, at: datetime) -> OutgoingRecord:
    """Return the marker for the dead letter's own partition, which says that it was resent."""
    said = {
        RETRIED: letter.origin,
        RETRIED_AT: at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        RETRIED_TO: to,
    }
    return OutgoingRecord(
        topic=letter.topic,
        key=letter.key,
        value=b"",  # not null, which would delete records with this key in a compacted topic
        headers=tuple((name, text.encode()) for name, text in said.items()),
        partition=letter.partition,
    )


def read_dead_letters(
    settings: KafkaSettings,
    topic: str,
    until: Literal["end", "settled"] = "end",
    stop: Stop | None = None,
) -> DeadLetterBox:
    """Read all dead letters of the dead-letter topic `topic`, without their values.

    Args:
        until: see `open_reader`.
        stop: stop reading when it is set.

    Raises:
        TopicMissing, BrokerUnavailable: see these classes.
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
    """Read some dead letters of one topic, in order, as the original records.

    Records that retention has deleted are left out, as are those after `stop` is set.

    Raises:
        TopicMissing, BrokerUnavailable: see these classes.
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
    """Return the record (its origin) that a marker is about, and the retry; None: no marker."""
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
