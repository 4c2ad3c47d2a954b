"""A message of the wire contract: CloudEvents 1.0 attributes as Kafka headers (binary mode).

All functions that decode a message from outside raise the `BadInput` of its kind, such as
`BadSnapshot`, if it breaks the contract (the text says how), and `LimitExceeded` if it is above
`limits`, before anything of that size is allocated.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from stream_icd.core.errors import BadInput, LimitExceeded
from stream_icd.core.headers import Headers
from stream_icd.core.snapshot import Window, check_graph_name
from stream_icd.core.times import rfc3339
from stream_icd.wire.limits import Limits

_ARROW_TYPE, JSON_TYPE = "application/vnd.apache.arrow.stream", "application/json"

_OURS = frozenset(("ce_specversion", "ce_type", "ce_source", "ce_id", "ce_time", "content-type"))
"""The headers of the contract that do not begin with `icd_`. Other attributes of CloudEvents are
extensions, such as traces: they change nothing, however long they are."""

EVENT_TYPES = {
    "snapshots": "stream_icd.snapshot.v1",
    "labels": "stream_icd.labels.v1",
    "communities": "stream_icd.communities.v1",
    "events": "stream_icd.events.v1",
    "memory": "stream_icd.memory.v1",
}
"""The `ce_type` of each kind of message about a window; the archive keeps these."""

_NAMES_IN_AN_ID = 4
"""Maximum number of names in a `ce_id`: that of a result has a snapshot's, a model's, and more."""

_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?")
"""A number in a header, as docs/asyncapi.yaml has it; Python takes digits of all scripts."""

_PLACE = re.compile(r"(\d{1,5})@(\d{1,18})", re.ASCII)

_MOST_REASON = 300
"""Maximum characters quoted from another library's error, which may repeat the whole input."""


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka message: `key` names the graph (UTF-8), `value` holds the bytes."""

    key: bytes
    value: bytes
    headers: Headers


@contextmanager
def refusing(error: type[BadInput], beginning: str) -> Iterator[None]:
    """Convert any exception of the block to `error`, whose text begins with `beginning`."""
    try:
        yield
    # Lack of memory, Arrow's included, says nothing about the message: it can be tried again.
    except (BadInput, MemoryError):
        raise
    except Exception as cause:
        reason = f"{type(cause).__name__}: {cause}"
        raise error(f"{beginning}: {reason:.{_MOST_REASON}}") from cause


def event_message(
    key: bytes,
    value: bytes,
    *,
    type: str,
    source: str,
    id: str,
    time: datetime | Window,
    snapshot_id: str | None = None,
    extra: Mapping[str, str | None],
    content_type: str = _ARROW_TYPE,
) -> Message:
    """Return the message of one event, its headers in a fixed order.

    `time`: a window is named, too, and its end is the time. What is None in `extra`, whose names
    begin with `icd_`, is left out.
    """
    about = {"icd_snapshot_id": snapshot_id}
    if isinstance(time, Window):
        about |= {"icd_window_start": rfc3339(time.start), "icd_window_end": rfc3339(time.end)}
        time = time.end
    attributes = {
        "ce_specversion": "1.0",
        "ce_type": type,
        "ce_source": source,
        "ce_id": id,
        "ce_time": rfc3339(time),
        "content-type": content_type,
        **about,
        **extra,
    }
    headers = ((name, text.encode()) for name, text in attributes.items() if text is not None)
    return Message(key, value, tuple(headers))


def result_id(snapshot_id: str, model: str, revision: str) -> str:
    """Return the `ce_id` of a result: of communities, and of the events made from them."""
    return "@".join(part for part in (snapshot_id, model, revision) if part)


def place_in_topic(snapshot_place: str) -> tuple[int, int] | None:
    """Return partition and offset of an `icd_snapshot_place`; None if the text is none."""
    place = _PLACE.fullmatch(snapshot_place)
    return None if place is None else (int(place[1]), int(place[2]))


class EventHeaders:
    """The headers of a message from outside, read by name, with clear error messages.

    Args:
        names_in_id: how many times `limits.name_bytes` the `ce_id` may have.

    Raises:
        BadInput: as `error`: a header is missing, repeated or malformed, or not UTF-8.
        LimitExceeded: all headers, or one of them, are above `limits`.
    """

    def __init__(
        self,
        headers: Headers,
        type: str,
        limits: Limits,
        error: type[BadInput],
        content_type: str = _ARROW_TYPE,
        names_in_id: int = _NAMES_IN_AN_ID,
    ) -> None:
        self._error = error
        # Sizes first: what follows copies and quotes names and values.
        size = sum(len(name) + len(value or b"") for name, value in headers)
        if size > limits.header_bytes:
            raise LimitExceeded(f"headers of {size} bytes; the limit is {limits.header_bytes}")
        self._values = dict(headers)  # of a name that is given twice, the last one
        for name in self._values:
            _check_utf_8(name, error)
        ours = Counter(name for name, _ in headers if name in _OURS or name.startswith("icd_"))
        for name, count in ours.items():
            most_bytes = limits.name_bytes * (names_in_id if name == "ce_id" else 1)
            _check_size(f"header {name:.80}", self._values[name], most_bytes)
            # Readers take the first or the last one: they would not see the same message.
            if count > 1:
                raise error(f"header {name:.80} is given {count} times; send it once")
        self._expect("ce_specversion", "1.0")
        self._expect("ce_type", type)
        self._expect("content-type", content_type)

    def text(self, name: str) -> str:
        """A required header, not empty."""
        value = self.optional(name)
        if not value:
            raise self._error(f"header {name} is missing or empty")
        return value

    def optional(self, name: str) -> str | None:
        """A header as text, or None if it is absent."""
        value = self._values.get(name)
        try:
            return None if value is None else value.decode()
        except (UnicodeDecodeError, AttributeError) as cause:
            raise self._error(f"header {name} is not UTF-8 text: {value!r:.80}") from cause

    def time(self, name: str) -> datetime:
        """A required header as a time, RFC 3339 with a zone."""
        text = self.text(name)
        try:
            time = datetime.fromisoformat(text)
        except ValueError as cause:
            raise self._error(f"header {name} is {text!r:.80}; expected RFC 3339") from cause
        if time.tzinfo is None:
            raise self._error(f"header {name} is {text!r:.80}; it needs a time zone, such as Z")
        try:
            # A time of the years 1 to 9999 may lie outside of them in UTC.
            return time.astimezone(UTC)
        except OverflowError as cause:
            raise self._error(
                f"header {name} is {text!r:.80}; in UTC it is outside the years 1 to 9999"
            ) from cause

    def number(self, name: str, least: float | None = None) -> float:
        """A required header as a finite number, of at least `least`."""
        text = self.text(name)
        # `float` alone would take "nan", "1_0" and digits of other scripts.
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not math.isfinite(number):
            raise self._error(f"header {name} is {text!r:.80}; expected a finite number")
        if least is not None and number < least:
            raise self._error(f"header {name} is {number}; expected a number from {least}")
        return number

    def word(self, name: str, words: Sequence[str]) -> str | None:
        """A header as one of these words, or None if it is absent."""
        text = self.optional(name)
        if text is not None and text not in words:
            expected = ", ".join(words)
            raise self._error(f"header {name} is {text!r:.80}; expected one of {expected}")
        return text

    def whole(self, name: str, least: float = 0) -> int | None:
        """A header as an integer of at least `least`, or None if it is absent."""
        text = self.optional(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= least):
            expected = "a whole number above 0" if least else "a whole number"
            raise self._error(f"header {name} is {text!r:.80}; expected {expected}")
        return int(text)

    def window(self) -> Window:
        """The window from `icd_window_start` to `icd_window_end`."""
        start, end = self.time("icd_window_start"), self.time("icd_window_end")
        if end < start:
            raise self._error(f"the window ends ({end}) before it starts ({start})")
        return Window(start, end)

    def read(self, fields: Fields) -> dict[str, Any]:
        """The attributes that the headers hold, by their names in Python."""
        return {field.attribute: field.read(self, name) for name, field in fields.items()}

    def _expect(self, name: str, expected: str) -> None:
        value = self.text(name)
        if value != expected:
            raise self._error(f"header {name} is {value!r:.80}; expected {expected!r}")


class Field(NamedTuple):
    """How a header holds an attribute of a message's content.

    Attributes:
        attribute: its name in Python.
        optional: the header is left out if there is no value; it is read as `absent` then.
        least: of a number.
        words: what a word may be.
    """

    attribute: str
    kind: Literal["text", "word", "flag", "time", "number", "whole"] = "text"
    optional: bool = False
    absent: str | None = None
    least: float | None = None
    words: Sequence[str] = ()

    def write(self, item: object) -> str | None:
        """The text of the header for an item with the attribute; None if it is left out."""
        value: Any = getattr(item, self.attribute)
        if self.optional and value in (None, ""):
            return None
        match self.kind:
            case "flag":
                return "true" if value else "false"
            case "time":
                return datetime.isoformat(value)
            case "number":
                return f"{value:.9g}"
            case _:
                return str(value)

    def read(self, headers: EventHeaders, name: str) -> Any:
        """The value that the header of this name holds; raises as `EventHeaders`."""
        if (text := (headers.optional if self.optional else headers.text)(name)) is None:
            return self.absent
        match self.kind:
            case "text":
                return text or self.absent
            case "word":
                return headers.word(name, self.words)
            case "flag":
                return headers.word(name, ("true", "false")) == "true"
            case "time":
                return headers.time(name)
            case "number":
                return headers.number(name, self.least)
            case "whole":
                return headers.whole(name, self.least or 0)


Fields = Mapping[str, Field]
"""Each field by the name of its header, in the order in which headers are written."""


def headers_of(fields: Fields, item: object) -> dict[str, str | None]:
    """Return the headers that hold an item's attributes; None for those that are left out."""
    return {name: field.write(item) for name, field in fields.items()}


def _check_utf_8(name: str, error: type[BadInput]) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as cause:
        came = name.encode(errors="surrogateescape")
        raise error(f"a header's name is not UTF-8: {came!r:.80}") from cause


def graph_name_of(key: bytes | None, limits: Limits, error: type[BadInput]) -> str:
    """Return the graph's name from a message key; raises as `EventHeaders`."""
    # Before it is decoded or quoted: a key may be as long as a message.
    _check_size("the key", key, limits.name_bytes)
    try:
        graph = (key or b"").decode()
    except UnicodeDecodeError as cause:
        raise error(f"the key is not UTF-8: {key!r:.80}") from cause
    if not graph:
        raise error("the message has no key; the key is the graph's name")
    check_graph_name(graph)
    return graph


def _check_size(name: str, value: bytes | None, limit: int) -> None:
    if value is not None and len(value) > limit:
        raise LimitExceeded(f"{name} is {len(value)} bytes; the limit of a name is {limit}")
