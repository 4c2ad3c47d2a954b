"""Small JSON files of a registry: a frozen dataclass and the version of its format."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from stream_icd.core.errors import RegistryDamaged, StreamIcdError
from stream_icd.core.store.store import Store

_Entry = TypeVar("_Entry")

_MOST_BYTES = 2**24
"""A retrainer remembers a score for each of `settings._MOST_LOOKED_AT` windows: 3 MB, as a rule."""


def to_json(entry: object, format_: int) -> pa.Buffer:
    """The file of an entry; times and numbers are as in JSON Schema."""
    values = TypeAdapter(type(entry)).dump_python(entry, mode="json")
    return pa.py_buffer(json.dumps({"format": format_, **values}, indent=2).encode() + b"\n")


def read_json(store: Store, path: str, kind: type[_Entry], format_: int) -> _Entry:
    """Read an entry; fields that this version does not know are ignored.

    Raises `FileNotFoundError`; `RegistryDamaged` if it is not such an entry, a number is not
    finite, a time has no zone or is outside the years 1 to 9999, or the format is a later one.
    """
    place, size = f"{store.place}/{path}", store.size(path)
    if size > _MOST_BYTES:
        raise RegistryDamaged(f"{place} has {size} bytes; at most {_MOST_BYTES} are read")
    content = store.read(path, size)
    try:
        values = json.loads(content or b"", parse_float=_finite, parse_constant=_finite)
        # Before the values: a later format may have others, and the way out is another one.
        own = values["format"]
        if isinstance(own, int) and own > format_:
            raise RegistryDamaged(
                f"{place} has format {own} and this version reads up to {format_}; upgrade "
                "stream-icd"
            )
        entry: _Entry = _with_utc(TypeAdapter(kind).validate_python(values, strict=False))
        return entry
    except StreamIcdError:
        raise
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise RegistryDamaged(f"{place} cannot be read: {wrong:.300}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise RegistryDamaged(f"{place} cannot be read: {error!s:.300}") from error


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _with_utc(value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone")
        return value.astimezone(UTC)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _with_utc(getattr(value, f.name)) for f in fields(value)})
    if isinstance(value, tuple):
        return tuple(map(_with_utc, value))
    if isinstance(value, dict):
        return {key: _with_utc(item) for key, item in value.items()}
    return value
