"""One dead letter: how a bad record becomes one, what it says, and how it is resent and marked."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from stream_icd.core.errors import (
    BadInput,
    BadSettings,
    CrashedWorker,
    LimitExceeded,
    OverBudget,
    TooManyDeadLetters,
)
from stream_icd.core.headers import Headers
from stream_icd.core.printable import shortened
from stream_icd.core.times import rfc3339
from stream_icd.kafka.messages.claims import Claim
from stream_icd.kafka.messages.records import graph_name
from stream_icd.kafka.port import dead_letter_topic, is_dead_letter_topic
from stream_icd.kafka.record import OutgoingRecord, Record

_ATTEMPT = "icd_dlq_attempt"
"""How many times a record has been dead-lettered. A resent record keeps this header, so that
repeated failures are visible."""

_ORIGIN = "icd_dlq_origin"
"""Position of a record when first dead-lettered: `topic[partition]@offset`, the same for all
its dead letters. A resent record keeps this header, too."""

_MOST_MESSAGE = 1000
"""Maximum length of the error message in a dead letter, in characters."""

_ADDED = (
    "icd_dlq_topic",
    "icd_dlq_partition",
    "icd_dlq_offset",
    "icd_dlq_stage",
    "icd_dlq_exception",
    "icd_dlq_message",
    _ATTEMPT,
    _ORIGIN,
)
_OF_ANY_STEP: dict[str, type[BadInput]] = {
    "budget": OverBudget,
    "crashed": CrashedWorker,
    "publish": LimitExceeded,
}
"""The stages around a step, and the one exception of each."""

_PLACE = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})\[\d{1,10}\]@\d{1,19}", re.ASCII)
_SHORT = re.compile(r"(?P<partition>\d+):(?P<offset>\d+)")

_RETRIED = "icd_dlq_retried"
_RETRIED_AT = "icd_dlq_retried_at"
_RETRIED_TO = "icd_dlq_retried_to"

_CALENDAR = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""Range of days shown for a record's timestamp, which may be any 64-bit number."""


def dead_letter(record: Record, stage: str, error: BadInput) -> OutgoingRecord:
    """Return the record for `<topic>.dlq`: value and headers unchanged, with headers added."""
    # A record that was resent has these already; their new values are among the added ones.
    as_it_came = tuple(header for header in record.headers if header[0] not in (_ATTEMPT, _ORIGIN))
    why = (
        record.topic,
        str(record.partition),
        str(record.offset),
        stage,
        type(error).__name__,
        shortened(str(error), _MOST_MESSAGE),
        str(_attempts_before(record) + 1),
        _origin(record),
    )
    encoded = (text.encode(errors="backslashreplace") for text in why)
    return OutgoingRecord(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        value=record.value,
        headers=(*as_it_came, *zip(_ADDED, encoded, strict=True)),
    )


def possible(stages: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield stage and exception of each dead letter that a step with these stages can cause."""
    yield from ((stage, error.__name__) for stage, error in _OF_ANY_STEP.items())
    kinds = [kind for kind in BadInput.kinds() if kind not in (CrashedWorker, OverBudget)]
    yield from ((stage, kind.__name__) for stage in stages for kind in kinds)


def split_headers(headers: Headers) -> tuple[Headers, dict[str, str]]:
    """Return a dead letter's original headers, and those added at their end. Claim headers after
    them belong to the value, and so to the original headers."""
    came, claim = list(headers), list[tuple[str, bytes]]()
    while came and came[-1][0] in Claim.NAMES:
        claim.insert(0, came.pop())
    added: dict[str, str] = {}
    # From the end, each name once: a producer's own headers of these names stand before them.
    while came and came[-1][0] in _ADDED and came[-1][0] not in added:
        name, value = came.pop()
        added[name] = value.decode(errors="replace")
    return (*came, *claim), dict(reversed(added.items()))


def _attempts_before(record: Record) -> int:
    return max(map(_count_of, _texts(record.headers, _ATTEMPT)), default=0)


class DeadLetterLimit:
    """Stops a worker that dead-letters nearly all records: its input or settings are wrong.

    Of the last `window` records, once there are that many, at most this share may be.
    """

    def __init__(self, share: float = 0.5, window: int = 50) -> None:
        if not 0 < share <= 1 or window < 1:
            raise BadSettings(
                f"dead-letter limit {share} of {window}: the fraction must be above 0 and at "
                "most 1, the window at least 1"
            )
        self._share = share
        self._recent: deque[bool] = deque(maxlen=window)

    def count(self, record: Record, dead_because: str | None = None) -> None:
        """Count one record; raise TooManyDeadLetters if too many of the last ones are dead."""
        is_dead = dead_because is not None
        if is_dead and _attempts_before(record):  # who resent it expects that it may fail again
            return
        self._recent.append(is_dead)
        n_dead = sum(self._recent)
        full = len(self._recent) == self._recent.maxlen
        if full and n_dead > self._share * len(self._recent):
            raise TooManyDeadLetters(
                f"{n_dead} of the last {len(self._recent)} records became dead letters; the "
                f"last one because: {dead_because}. Fix the producer, or raise --max-dead-letters."
            )


@dataclass(frozen=True, slots=True)
class DeadLetter(Record):
    """A record of a dead-letter topic, without its value; the headers are the producer's."""

    # The added headers, by name, which say why it was dead-lettered.
    added: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None  # of the value, in bytes; None if the value is null

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the dead letter in a record of a dead-letter topic."""
        headers, added = split_headers(record.headers)
        size = None if record.value is None else len(record.value)
        return cls(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            key=record.key,
            value=None,
            headers=headers,
            added=added,
            size=size,
        )

    @property
    def came_from(self) -> str | None:
        """Position of the dead-lettered record, as in its worker's log."""
        names = ("icd_dlq_topic", "icd_dlq_partition", "icd_dlq_offset")
        topic, partition, offset = map(self.added.get, names)
        return f"{topic}[{partition}]@{offset}" if topic else None

    @property
    def origin(self) -> str:
        """Position of the record when first dead-lettered: the same for all its dead letters."""
        return self.added.get(_ORIGIN) or self.came_from or self.place

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
        return max(1, _count_of(self.added.get(_ATTEMPT, "")))

    def resent(self, came: Record, to: str, attempt: int) -> OutgoingRecord:
        """Return the record to send to a topic again, which says how often it failed."""
        history = ((_ATTEMPT, str(attempt).encode()), (_ORIGIN, self.origin.encode()))
        return OutgoingRecord(to, came.value, came.key, (*came.headers, *history))

    def marker(self, to: str, at: datetime) -> OutgoingRecord:
        """Return the marker for its own partition, which says that it was resent."""
        marks = (_RETRIED, self.origin), (_RETRIED_AT, rfc3339(at)), (_RETRIED_TO, to)
        return OutgoingRecord(
            topic=self.topic,
            key=self.key,
            value=b"",  # not null, which would delete records with this key in a compacted topic
            headers=tuple((name, text.encode()) for name, text in marks),
            partition=self.partition,
        )


@dataclass(frozen=True, slots=True)
class Retried:
    """When a dead letter was resent, and to which topic."""

    at: str
    to: str

    @classmethod
    def marked(cls, record: Record) -> tuple[str, Self] | None:
        """Return the record (its origin) that a marker is about, and the retry; None: no marker."""
        headers = dict(record.headers)
        # A dead letter of a record that a producer gave such a header is no marker.
        if record.value or _RETRIED not in headers or split_headers(record.headers)[1]:
            return None
        at, to = (_text(headers.get(name)) or "?" for name in (_RETRIED_AT, _RETRIED_TO))
        return _text(headers[_RETRIED]) or "", cls(at, to)


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
    named = {_dead_letters_of(place["topic"]) for place in map(_PLACE.fullmatch, texts) if place}
    if len(named) > 1:
        raise BadSettings(
            f"these positions are in several topics ({', '.join(sorted(named))}): "
            "give those of one topic"
        )
    dead_letters = named.pop() if named else _dead_letters_of(topic)
    return dead_letters, frozenset(_whole_place(text, dead_letters) for text in texts)


def _dead_letters_of(topic: str) -> str:
    return topic if is_dead_letter_topic(topic) else dead_letter_topic(topic)


def _whole_place(text: str, dead_letters: str) -> str:
    if _PLACE.fullmatch(text):
        return text
    if place := _SHORT.fullmatch(text):
        return f"{dead_letters}[{place['partition']}]@{place['offset']}"
    raise BadSettings(
        f"{text!r} is not a position: give PARTITION:OFFSET, or {dead_letters}[PARTITION]@OFFSET"
    )


def _count_of(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _origin(record: Record) -> str:
    # A producer may have sent any text under this name.
    places = [text for text in _texts(record.headers, _ORIGIN) if _PLACE.fullmatch(text)]
    return places[-1] if places else record.place


def _texts(headers: Headers, name: str) -> list[str]:
    return [value.decode(errors="replace") for own, value in headers if own == name]


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
