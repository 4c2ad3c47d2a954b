"""Read and check the values of a whole column at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_icd.core.arrays import Floats, Ids
from stream_icd.core.node_ids import is_id_type, is_text
from stream_icd.core.snapshot import EPOCH, MICROSECOND, MOST_NODE_BYTES
from stream_icd.sources.tables import MOST_EXACT, UNREADABLE

TimeUnit = Literal["s", "ms", "us", "ns"]
IdKind = Literal["auto", "integer", "string"]
KindBefore = Callable[[], IdKind]
"""Returns the kind of ids that a graph has so far; `auto` if it has no snapshot yet."""

Mask = NDArray[np.bool_]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST = str(2**63 - 1)
_BELOW_MOST = "|".join(  # of 19 digits: the first one that differs from those of MOST is less
    f"{_MOST[:at]}[{int(at == 0)}-{int(digit) - 1}][0-9]{{{18 - at}}}"
    for at, digit in enumerate(_MOST)
    if digit > "0"
)
INTEGER = rf"^(0|-?([1-9][0-9]{{0,17}}|{_BELOW_MOST}|{_MOST})|-{2**63})$"
"""Integers without leading zeros that int64 holds."""
_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.0+|(\.[0-9]+)?[eE]\+[0-9]+)$"
"""Numbers such as 1.0 and 1e+05, as pandas and R write whole numbers that they hold as floats."""
_DAY = r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(\.0*)?$"
"""A day such as 20260131; as seconds, all days of two centuries are the same month of 1970."""
_ZONES = ((" (UTC|GMT)$", "Z"), (" ([+-][0-9]{2}:?[0-9]{2})$", r"\1"))
"""Zones that a space precedes, and how ISO 8601 writes them."""

_MAIL = re.compile(
    r"([A-Za-z]{3}, *)?[0-9]{1,2} +[A-Za-z]{3} +[0-9]{4} +[0-9]{1,2}:[0-9]{2}(:[0-9]{2})? +"
    r"([+-][0-9]{4}|UTC?|GMT|Z|[ECMP][SD]T)( *\(.*\))?"
)
"""A date of RFC 2822, such as Sat, 31 Jan 2026 13:05:00 +0100."""

_FIRST_TIME = (datetime(1, 1, 3, tzinfo=UTC) - EPOCH) // MICROSECOND
_LAST_TIME = (datetime(9998, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND


@dataclass(frozen=True, slots=True)
class IdForm:
    """How the ids of a table are read.

    Attributes:
        kind: that of all ids; `auto` if there are none.
        numeric: columns of a graph with text ids in which each id is a whole number: 1.0 is 1.
        odd: an id because of which integers in its column are read as text, if any.
    """

    kind: IdKind
    numeric: frozenset[str] = frozenset()
    odd: str | None = None

    @classmethod
    def of(
        cls, columns: Mapping[str, pa.ChunkedArray], before: KindBefore, *, untyped: bool
    ) -> IdForm:
        """Return the form of ids for `--ids auto`, given all ids of a table.

        The kind is that of the graph `before`, if it has one: a node would be another one as a text
        than as an integer. Otherwise it is the one that holds all of these ids.

        Args:
            untyped: see `RawRows`; else a text such as 1.0 is no number among texts.
        """
        forms = {name: cls.of_column(column) for name, column in columns.items()}
        if all(form.kind == "auto" for form in forms.values()):
            return cls("auto")
        texts = [form for form in forms.values() if form.kind == "string"]
        numeric: frozenset[str] = frozenset()
        # Beside texts without any integer among them, 1.0 may be a version, or a section's number.
        if untyped and all(form.odd is not None for form in texts):
            numeric = frozenset(name for name, form in forms.items() if form.kind == "integer")
        if (kind := before()) != "auto":
            return cls(kind, numeric)
        if not texts:
            return cls("integer")
        odd = next((form.odd for form in texts if form.odd is not None), None)
        return cls("string", numeric, odd)

    @classmethod
    def of_column(cls, ids: pa.ChunkedArray) -> IdForm:
        """Return the form of one column: integers if each is a whole number, even if it is 1.0."""
        if pa.types.is_null(ids.type):
            return cls("auto")
        if not is_text(ids.type):
            is_number = pa.types.is_integer(ids.type) or pa.types.is_floating(ids.type)
            return cls("integer" if is_number else "string")
        text = _given(ids.combine_chunks().cast(pa.string()))
        if text.null_count == len(text):
            return cls("auto")
        if _as_integers(text) is not None:
            return cls("integer")
        text = text.filter(pc.invert(pc.match_substring(text, UNREADABLE)))
        if not len(text):
            return cls("auto")
        # A number too large to be exact is null here: it is refused, and the others are used.
        whole = pc.fill_null(pc.match_substring_regex(_without_decimals(text), INTEGER), True)
        if pc.all(whole).as_py():
            return cls("integer")
        has_integers = pc.any(pc.match_substring_regex(text, INTEGER)).as_py()
        odd: str = text[pc.index(whole, False).as_py()].as_py()
        return cls("string", odd=odd if has_integers else None)

    def read(self, column: pa.ChunkedArray, name: str = "") -> tuple[pa.Array, Mask]:
        """Return the ids of a column as int64 or text, and which are good; bad ones are null.

        The number 1.0 is the integer 1, and so is the text 1.0 if ids are integers, or if the
        column is `numeric`.
        """
        ids = column.combine_chunks()
        if pa.types.is_floating(ids.type):
            ids = _whole(ids)
        if not is_id_type(ids.type):
            return pa.nulls(len(ids), pa.int64()), np.zeros(len(ids), bool)
        if self.kind == "integer" and pa.types.is_integer(ids.type):
            ids = _signed(ids)
            return ids, _mask(ids.is_valid())
        text = _given(ids.cast(pa.string()))
        if self.kind == "integer":
            if (integers := _as_integers(text)) is not None:
                return integers, _mask(integers.is_valid())
            text = _without_decimals(text)
            good = pc.fill_null(pc.match_substring_regex(text, INTEGER), False)
            return pc.if_else(good, text, None).cast(pa.int64()), _mask(good)
        if name in self.numeric:
            text = _without_decimals(text)
        is_short = pc.less_equal(pc.binary_length(text), MOST_NODE_BYTES)
        good = pc.and_not(is_short, pc.match_substring(text, UNREADABLE))
        return text, _mask(pc.fill_null(good, False))

    def fault(self, bad: pa.Scalar) -> str:
        """Return what is wrong with a bad id, as the end of a sentence."""
        value = shown_value(bad)
        if value is None or value == "" or value != value:
            return "empty"
        if not (is_id_type(bad.type) or pa.types.is_floating(bad.type)):
            return f"of type {bad.type}, no integer or text"
        if isinstance(value, str) and (size := len(value.encode())) > MOST_NODE_BYTES:
            return f"one of {size:,} bytes; the limit is {MOST_NODE_BYTES:,}: send a hash of it"
        if re.match(_DECIMAL, str(value)) and abs(float(str(value))) >= MOST_EXACT:
            return f"a decimal number of at least 2^53 = {MOST_EXACT:,}, not exact: write integers"
        if pa.types.is_floating(bad.type):
            return "no whole number"
        return "not of type integer (--ids)" if self.kind == "integer" else "not UTF-8"


def shown_value(value: pa.Scalar) -> object:
    """Return the value, or the number of a time that Python has no object for."""
    try:
        return value.as_py()
    except (OverflowError, KeyError, pa.ArrowInvalid):  # KeyError: pytz knows no such time zone
        return getattr(value, "value", value.type)


def _given(text: pa.Array) -> pa.Array:
    """Return null in place of empty texts, which are missing ids."""
    return pc.if_else(pc.equal(text, ""), None, text)


def _as_integers(text: pa.Array) -> pa.Array | None:
    """Return the integers if all texts match `INTEGER`, or are null; None if not.

    It takes a quarter of the time of that pattern.
    """
    try:
        integers = text.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    zeros = pc.and_(pc.starts_with(text, "0"), pc.greater(pc.binary_length(text), 1))
    if pc.any(pc.or_(zeros, pc.starts_with(text, "-0"))).as_py():
        return None
    return integers


def _without_decimals(text: pa.Array) -> pa.Array:
    """Return numbers such as 1.0 as integers, null if they are not exact; others as they are."""
    decimal = pc.match_substring_regex(text, _DECIMAL)
    if not pc.any(decimal).as_py():
        return text
    floats = pc.if_else(decimal, text, None).cast(pa.float64())
    whole = _whole(floats)
    inexact = pc.fill_null(pc.greater_equal(pc.abs(floats), float(MOST_EXACT)), False)
    return pc.if_else(inexact, None, pc.coalesce(whole.cast(pa.string()), text))


def _whole(floats: pa.Array) -> pa.Array:
    """Return as int64 what pandas makes of integers beside missing ones; others are null."""
    values = floats.cast(pa.float64()).to_numpy(zero_copy_only=False)
    whole = (np.abs(values) < MOST_EXACT) & (values == np.rint(values))
    return pa.array(np.where(whole, values, 0).astype(np.int64), mask=~whole)


def _signed(integers: pa.Array) -> pa.Array:
    """Return the integers as int64; null if above its range."""
    if pa.types.is_uint64(integers.type):
        fits = pc.less(integers, pa.scalar(2**63, pa.uint64()))
        integers = pc.if_else(fits, integers, None)
    return integers.cast(pa.int64())


def read_numbers(column: pa.ChunkedArray, is_good: Callable[[Floats], Mask]) -> tuple[Floats, Mask]:
    """Return the numbers, and which of them are finite and good."""
    try:
        array = column.combine_chunks().cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = column.to_pylist() if is_text(column.type) else [None] * len(column)
        array = pa.array(map(_float, texts), pa.float64())
    numbers = array.to_numpy(zero_copy_only=False)
    return numbers, np.isfinite(numbers) & is_good(numbers)


def _float(text: object) -> float | None:
    with suppress(ValueError):
        return float(str(text))
    return None


def read_times(
    column: pa.ChunkedArray, unit: TimeUnit, zone: str, form: str | None = None
) -> tuple[Ids, Mask]:
    """Return event times in microseconds since 1970 UTC, and which of them are good.

    Args:
        column: text of ISO 8601, of BigQuery (2026-01-31 13:05:00 UTC) or of mails (RFC 2822),
            timestamps, dates, or numbers of this unit that count from 1970 UTC.
        zone: IANA time zone of times without one.
        form: of text and numbers, as `datetime.strptime` takes it; None: the forms above.

    Numbers such as 20260131 are no good times where most are: they mean a day, not a count.
    """
    times = _with_dates(column)
    if pa.types.is_timestamp(times.type):
        return _in_calendar(_of_timestamps(times, zone))
    if form is not None:
        return _in_calendar(_of_form(times, form, zone))
    if is_text(times.type):
        micros = _of_text(times, unit, zone)
    else:
        try:
            micros = _of_numbers(times, unit)
        except MemoryError:
            raise
        except pa.ArrowException:
            micros = pa.nulls(len(times), pa.int64())
    read, good = _in_calendar(micros)
    return read, good & ~_days_in(times)


def _days_in(times: pa.Array) -> Mask:
    """Return which numbers are written as days, if most of several are."""
    none = np.zeros(len(times), bool)
    is_number = pa.types.is_integer(times.type) or pa.types.is_floating(times.type)
    if len(times) < 2 or not (is_number or is_text(times.type)):
        return none
    days = none
    for part in (times.slice(0, 20), times):  # a look at a few is enough, as a rule
        days = _mask(pc.fill_null(pc.match_substring_regex(part.cast(pa.string()), _DAY), False))
        if days.mean() <= 0.5:
            return none
    return days


def _with_dates(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of times as one array, days as their start."""
    times = column.combine_chunks()
    is_date = pa.types.is_date(times.type)
    return times.cast(pa.date64()).cast(pa.timestamp("ms")) if is_date else times


def _in_calendar(micros: pa.Array) -> tuple[Ids, Mask]:
    read = pc.fill_null(micros, _LAST_TIME).to_numpy(zero_copy_only=False).astype(np.int64)
    return read, (read >= _FIRST_TIME) & (read < _LAST_TIME)


def _of_text(text: pa.Array, unit: TimeUnit, zone: str) -> pa.Array:
    """Parse a column of one format at once, and a mixed column value by value."""
    forms: tuple[Callable[[], pa.Array], ...] = (
        lambda: _of_numbers(text.cast(pa.int64()), unit),
        lambda: _of_numbers(text.cast(pa.float64()), unit),
        lambda: text.cast(pa.timestamp("us", "UTC")).cast(pa.int64()),
        lambda: _of_timestamps(text.cast(pa.timestamp("us")), zone),
        lambda: _with_zone(text).cast(pa.timestamp("us", "UTC")).cast(pa.int64()),
    )
    for read in forms:
        try:
            return read()
        except pa.ArrowInvalid:
            continue
    return _of_each(text, partial(_one_time, unit=unit), zone)


def _of_form(times: pa.Array, form: str, zone: str) -> pa.Array:
    if pa.types.is_floating(times.type):
        times = _whole(times)
    if not is_id_type(times.type):
        times = pa.nulls(len(times), pa.string())
    return _of_each(times.cast(pa.string()), partial(_formatted, form), zone)


def _with_zone(text: pa.Array) -> pa.Array:
    """Return ISO 8601 for `2026-01-31 13:05:00 UTC`, as of BigQuery, or `… +0100`, as of git."""
    for pattern, zone in _ZONES:
        text = pc.replace_substring_regex(text, pattern, zone)
    return text


def _of_each(texts: pa.Array, read: Callable[[str], int | datetime | None], zone: str) -> pa.Array:
    """Parse each text to microseconds since 1970 UTC, or to a time without a zone."""
    times = [None if text is None else read(text) for text in texts.to_pylist()]
    local = pa.array([t if isinstance(t, datetime) else None for t in times], pa.timestamp("us"))
    zoned = pa.array([None if isinstance(t, datetime) else t for t in times], pa.int64())
    return pc.coalesce(zoned, _of_timestamps(local, zone))


def _one_time(text: str, unit: TimeUnit) -> int | datetime | None:
    """Return microseconds since 1970 UTC, or a time without a zone; None if it is no time."""
    with suppress(ValueError, OverflowError):
        number = int(text) if text.lstrip("-").isdigit() else float(text)
        rounded = round(number * 10**6 / _PER_SECOND[unit])
        return rounded if _FIRST_TIME <= rounded < _LAST_TIME else None
    with suppress(ValueError, OverflowError):
        if _MAIL.fullmatch(text.strip()):
            sent = parsedate_to_datetime(text)
            return _micros(sent if sent.tzinfo else sent.replace(tzinfo=UTC))  # its zone is -0000
        for pattern, zone in _ZONES:
            text = re.sub(pattern, zone, text.strip())
        return _micros(datetime.fromisoformat(text))
    return None


def _formatted(form: str, text: str) -> int | datetime | None:
    with suppress(ValueError, OverflowError):
        return _micros(datetime.strptime(text.strip(), form))
    return None


def _micros(time: datetime) -> int | datetime:
    """Return microseconds since 1970 UTC; the time itself, if it has no zone."""
    return time if time.tzinfo is None else (time.astimezone(UTC) - EPOCH) // MICROSECOND


def _of_numbers(numbers: pa.Array, unit: TimeUnit) -> pa.Array:
    """Convert numbers to microseconds; null if NaN or out of range."""
    per_second = _PER_SECOND[unit]
    if not pa.types.is_integer(numbers.type):
        values = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False) * (10**6 / per_second)
        sane = (values > _FIRST_TIME) & (values < _LAST_TIME)
        return pa.array(np.where(sane, np.round(values), 0).astype(np.int64), mask=~sane)
    whole = pc.fill_null(_signed(numbers), -(2**63)).to_numpy(zero_copy_only=False)
    if per_second > 10**6:
        return pa.array(whole // (per_second // 10**6), mask=whole == -(2**63))
    factor = 10**6 // per_second
    sane = (whole > _FIRST_TIME // factor) & (whole < _LAST_TIME // factor)
    return pa.array(np.where(sane, whole, 0) * factor, mask=~sane)


def _of_timestamps(times: pa.Array, zone: str) -> pa.Array:
    micros = _of_numbers(times.cast(pa.int64()), times.type.unit)
    if times.type.tz is not None or zone == "UTC":  # else Arrow reads the time zones of the system
        return micros
    # Clock set back: take the first of two equal hours; set forward: take the time after it.
    local = micros.cast(pa.timestamp("us"))
    zoned = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.int64())


def _mask(booleans: pa.Array) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask
