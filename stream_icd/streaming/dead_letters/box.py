"""Contents of a dead-letter topic: which records, why, which were resent; and choices of them.

A record has several dead letters if several workers could not read it, or one failed repeatedly.

The topic is the only state. A resent dead letter is marked by a later record in its partition, so
the whole topic must be read to find those that were not resent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from typing import Literal

from stream_icd.core import errors
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import did_you_mean, listed, shown
from stream_icd.core.times import rfc3339
from stream_icd.kafka.messages.records import graph_name
from stream_icd.kafka.messages.topic_range import TopicRange
from stream_icd.kafka.port import dead_letter_topic, is_dead_letter_topic
from stream_icd.kafka.reader import open_reader
from stream_icd.kafka.record import OutgoingRecord, Record
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.waiting import Stop
from stream_icd.streaming.dead_letters.letters import (
    ATTEMPT,
    ORIGIN,
    PLACE,
    count_of,
    split_headers,
)

_RETRIED = "icd_dlq_retried"
_RETRIED_AT = "icd_dlq_retried_at"
_RETRIED_TO = "icd_dlq_retried_to"

UNKNOWN = "unknown"
"""The exception of a dead letter that names none, in lists and choices."""

_CALENDAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Range of days shown for a record's timestamp, which may be any 64-bit number."""

_SHORT = re.compile(r"(?P<partition>\d+):(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class DeadLetter(Record):
    """A record of a dead-letter topic, without its value; the headers are the producer's."""

    # The added headers, by name, which say why it was dead-lettered.
    added: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None  # of the value, in bytes; None if the value is null

    @property
    def came_from(self) -> str | None:
        """Position of the dead-lettered record, as in its worker's log."""
        names = ("icd_dlq_topic", "icd_dlq_partition", "icd_dlq_offset")
        topic, partition, offset = map(self.added.get, names)
        return f"{topic}[{partition}]@{offset}" if topic else None

    @property
    def origin(self) -> str:
        """Position of the record when first dead-lettered: the same for all its dead letters."""
        return self.added.get(ORIGIN) or self.came_from or self.place

    @property
    def places(self) -> set[str | None]:
        """The positions that it may be chosen by: its own, the record's, and that at first."""
        return {self.place, self.came_from, self.origin}

    @property
    def at(self) -> datetime:
        """When it was dead-lettered; a time out of range becomes the first or last valid time."""
        first, last = (day.timestamp() for day in _CALENDAR)
        return datetime.fromtimestamp(min(max(self.timestamp_ms / 1000, first), last), UTC)

    @property
    def graph(self) -> str | None:
        """The graph's name, if the key is valid."""
        return _text(graph_name(self))

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
    """A record that was dead-lettered: its dead letters, in the order of the topic; its retries."""

    letters: Sequence[DeadLetter]
    retried: Sequence[Retried] = ()

    @property
    def origin(self) -> str:
        return self.letters[0].origin

    @property
    def first(self) -> DeadLetter:
        """The dead letter to resend: one that came from the origin itself, if there still is one.
        A worker sets where a dead letter came from, but a producer can claim any origin."""
        at_origin = [letter for letter in self.letters if letter.came_from == self.origin]
        return (at_origin or self.letters)[0]

    @property
    def latest(self) -> DeadLetter:
        return max(self.letters, key=attrgetter("attempt", "timestamp_ms", "offset"))

    @property
    def attempt(self) -> int:
        return self.latest.attempt

    @property
    def stages(self) -> tuple[str, ...]:
        """The processing stages that failed, for all of its workers."""
        return tuple(dict.fromkeys(letter.stage for letter in self.letters))

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
    """The dead letters of a topic, in its order, and the retries of the record of each origin."""

    letters: Sequence[DeadLetter]
    retried: Mapping[str, Sequence[Retried]]

    @property
    def records(self) -> list[BadRecord]:
        """The dead-lettered records, in the order of their first dead letters."""
        by_origin: dict[str, list[DeadLetter]] = defaultdict(list)
        for letter in self.letters:
            by_origin[letter.origin].append(letter)
        return [BadRecord(same, self.retried.get(at, ())) for at, same in by_origin.items()]


def dead_letter_of(record: Record) -> DeadLetter:
    """Return the dead letter in a record of a dead-letter topic."""
    headers, added = split_headers(record.headers)
    size = None if record.value is None else len(record.value)
    place = record.topic, record.partition, record.offset, record.timestamp_ms
    return DeadLetter(*place, record.key, None, headers, added, size)


def retried_marker(letter: DeadLetter, to: str, at: datetime) -> OutgoingRecord:
    """Return the marker for the dead letter's own partition, which says that it was resent."""
    said = (_RETRIED, letter.origin), (_RETRIED_AT, rfc3339(at)), (_RETRIED_TO, to)
    return OutgoingRecord(
        topic=letter.topic,
        key=letter.key,
        value=b"",  # not null, which would delete records with this key in a compacted topic
        headers=tuple((name, text.encode()) for name, text in said),
        partition=letter.partition,
    )


def read_dead_letters(
    settings: KafkaSettings,
    topic: str,
    until: Literal["end", "settled"] = "end",
    stop: Stop | None = None,
) -> DeadLetterBox:
    """Read all dead letters of the dead-letter topic `topic`; raises as `open_reader`."""
    letters: list[DeadLetter] = []
    retried: dict[str, list[Retried]] = defaultdict(list)
    with open_reader(settings, topic, until=until, stop=stop) as records:
        for record in records:
            if (mark := marked(record)) is None:
                letters.append(dead_letter_of(record))
            else:
                retried[mark[0]].append(mark[1])
    return DeadLetterBox(letters, retried)


def read_again(
    settings: KafkaSettings, letters: Collection[DeadLetter], stop: Stop | None = None
) -> Iterator[tuple[DeadLetter, Record]]:
    """Read some dead letters of one topic, in order, as the original records, until `stop`; not
    those that retention has deleted."""
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
    if record.value or _RETRIED not in headers or split_headers(record.headers)[1]:
        return None
    at, to = (_text(headers.get(name)) or "?" for name in (_RETRIED_AT, _RETRIED_TO))
    return _text(headers[_RETRIED]) or "", Retried(at, to)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


@dataclass(frozen=True, slots=True)
class DeadLetterChoice:
    """A selection of dead letters: those in a range of the topic that match all criteria."""

    part: TopicRange
    places: frozenset[str] = frozenset()  # any of `DeadLetter.places`; empty: those at any position
    graph: str | None = None
    exception: str | None = None

    def holds(self, letter: DeadLetter) -> bool:
        return (
            self.part.holds(letter)
            and (not self.places or not self.places.isdisjoint(letter.places))
            and self.graph in (None, letter.graph)
            and self.exception in (None, letter.exception or UNKNOWN)
        )

    def records(self, box: DeadLetterBox) -> list[BadRecord]:
        """Return the records with a selected dead letter; raises as `of`."""
        chosen = {letter.origin for letter in self.of(box)}
        return [record for record in box.records if record.origin in chosen]

    def of(self, box: DeadLetterBox) -> list[DeadLetter]:
        """Return the selected dead letters.

        Raises `BadSettings` if there is none at a position, or only those of other graphs, or no
        such exception.
        """
        chosen = [letter for letter in box.letters if self.holds(letter)]
        places = {place for letter in box.letters for place in letter.places}
        if missing := sorted(self.places - places):
            raise BadSettings(
                f"{self.part.topic} holds no dead letter {', '.join(missing)}: "
                "stream-icd dlq list shows what there is"
            )
        self._check("graph", self.graph, {shown(graph_name(letter)) for letter in box.letters})
        if not hasattr(errors, self.exception or ""):  # none of these is an answer, too
            exceptions = {letter.exception or UNKNOWN for letter in box.letters}
            self._check("exception", self.exception, exceptions)
        return chosen

    def _check(self, kind: str, wanted: str | None, known: Collection[str]) -> None:
        if wanted is not None and known and wanted not in known:
            raise BadSettings(
                f"{self.part.topic} holds no dead letter of {kind} {wanted}; "
                f"it holds those of {listed(sorted(known))}{did_you_mean(wanted, known)}"
            )


def parse_places(texts: Collection[str], topic: str) -> tuple[str, frozenset[str]]:
    """Return the dead-letter topic, and the requested positions in it.

    Args:
        texts: each `PARTITION:OFFSET` in the dead-letter topic, or `TOPIC[PARTITION]@OFFSET` in
            it or in the topic that it belongs to, as in lists and logs.
        topic: the topic of dead letters, for positions without one.

    Raises:
        BadSettings: a text is neither, or the positions are in several topics.

    >>> parse_places(["0:7"], "icd.snapshots.v1")
    ('icd.snapshots.v1.dlq', frozenset({'icd.snapshots.v1.dlq[0]@7'}))
    """
    named = {dead_letters_of(place["topic"]) for place in map(PLACE.fullmatch, texts) if place}
    if len(named) > 1:
        raise BadSettings(
            f"these positions are in several topics ({', '.join(sorted(named))}): "
            "give those of one topic"
        )
    dead_letters = named.pop() if named else dead_letters_of(topic)
    return dead_letters, frozenset(_whole_place(text, dead_letters) for text in texts)


def dead_letters_of(topic: str) -> str:
    """Return the dead-letter topic of a topic, or the topic itself if it is one."""
    return topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)


def _whole_place(text: str, dead_letters: str) -> str:
    if PLACE.fullmatch(text):
        return text
    if place := _SHORT.fullmatch(text):
        return f"{dead_letters}[{place['partition']}]@{place['offset']}"
    raise BadSettings(
        f"{text!r} is not a position: give PARTITION:OFFSET, or {dead_letters}[PARTITION]@OFFSET"
    )
