"""Fields of a message's content that headers hold, each declared once: name, attribute, type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from stream_icd.wire.message import EventHeaders


class _Field(NamedTuple):
    """How a header holds an attribute.

    Attributes:
        attribute: its name in Python.
        write: its text; None if the header is left out.
        read: its value, from all headers and the name of this one; raises as `EventHeaders`.
    """

    attribute: str
    write: Callable[[Any], str | None]
    read: Callable[[EventHeaders, str], Any]


Fields = dict[str, _Field]
"""Each field by the name of its header, in the order in which headers are written."""


def text(attribute: str) -> _Field:
    """A required text."""
    return _Field(attribute, str, EventHeaders.text)


def optional_text(attribute: str, absent: str | None = None) -> _Field:
    """A text that is left out if it is `absent`: the empty text or None."""

    def read(headers: EventHeaders, name: str) -> str | None:
        return headers.optional(name) or absent

    return _Field(attribute, lambda value: value or None, read)


def word(attribute: str, words: Sequence[str]) -> _Field:
    """One of these words, left out if it is None."""

    def read(headers: EventHeaders, name: str) -> str | None:
        return headers.word(name, words)

    return _Field(attribute, lambda value: value, read)


def flag(attribute: str) -> _Field:
    """A required `true` or `false`."""

    def read(headers: EventHeaders, name: str) -> bool:
        headers.text(name)
        return headers.word(name, ("true", "false")) == "true"

    return _Field(attribute, lambda value: "true" if value else "false", read)


def time(attribute: str) -> _Field:
    """A required time, RFC 3339."""
    return _Field(attribute, datetime.isoformat, EventHeaders.time)


def number(attribute: str) -> _Field:
    """A required finite number."""
    return _Field(attribute, _decimal, EventHeaders.number)


def optional_number(attribute: str, least: float | None = None) -> _Field:
    """A finite number of at least `least`, left out if it is None."""

    def read(headers: EventHeaders, name: str) -> float | None:
        return None if headers.optional(name) is None else headers.number(name, least)

    return _Field(attribute, _decimal, read)


def whole(attribute: str, least: int = 0) -> _Field:
    """A required whole number of at least `least`."""

    def read(headers: EventHeaders, name: str) -> int | None:
        headers.text(name)
        return headers.whole(name, least)

    return _Field(attribute, str, read)


def optional_whole(attribute: str, least: int = 0) -> _Field:
    """A whole number of at least `least`, left out if it is None."""

    def read(headers: EventHeaders, name: str) -> int | None:
        return headers.whole(name, least)

    return _Field(attribute, lambda value: None if value is None else f"{value:d}", read)


def written(fields: Fields, item: object) -> dict[str, str | None]:
    """Return the headers that hold an item's attributes; None for those that are left out."""
    return {name: field.write(getattr(item, field.attribute)) for name, field in fields.items()}


def read(fields: Fields, headers: EventHeaders) -> dict[str, Any]:
    """Return the attributes that the headers hold, by their names in Python."""
    return {field.attribute: field.read(headers, name) for name, field in fields.items()}


def _decimal(value: float | None) -> str | None:
    return None if value is None else f"{value:.9g}"
