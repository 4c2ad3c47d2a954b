"""From raw rows to rows with an event time, checked value by value; what is bad is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_icd.errors import BadRow, BadSettings
from stream_icd.snapshot import is_id_type
from stream_icd.sources.durations import EPOCH, MICROSECOND
from stream_icd.sources.source import OnBadRow
from stream_icd.sources.tables import UNREADABLE, RawRows
from stream_icd.sources.windows import Quiet, TimedRows

TimeUnit = Literal["s", "ms", "us", "ns"]
IdKind = Literal["auto", "integer", "string"]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
FIRST_TIME = (datetime(1, 1, 3, tzinfo=UTC) - EPOCH) // MICROSECOND
LAST_TIME = (datetime(9998, 1, 1, tzinfo=UTC) - EPOCH) // MICROSECOND


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table of timed rows mean.

    Attributes:
        time: name of the column of event times: ISO 8601 text, timestamps, or numbers.
        ids: what node ids are called here, and the name of the column of each.
        numbers: what other numbers are called here, the name of the column of each, and which
            values (n,) are good.
        time_unit: of times that are numbers, which count from 1970 UTC.
        zone: of times that say none, an IANA name.
        id_kind: `auto`: integers where the first id is one.

    Raises:
        BadSettings: no such zone.
    """

    time: str
    ids: Mapping[str, str]
    numbers: Mapping[str, tuple[str, Callable[[Floats], Mask]]] = field(default_factory=dict)
    time_unit: TimeUnit = "s"
    zone: str = "UTC"
    id_kind: IdKind = "auto"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise BadSettings(
                f"no time zone {self.zone!r}; give an IANA name such as Asia/Shanghai"
            ) from error

    @property
    def names(self) -> list[str]:
        """All of them, each once."""
        numbers = [column for column, _ in self.numbers.values()]
        return list(dict.fromkeys((self.time, *self.ids.values(), *numbers)))


def timed_rows(
    raw: Iterable[RawRows | Quiet], columns: Columns, on_bad_row: OnBadRow
) -> Iterator[TimedRows | Quiet]:
    """The good rows of each batch, ids and numbers under the names that they have here.

    All ids have one type: `columns.id_kind`, or that of the very first.
    """
    kind = columns.id_kind
    first_id = next(iter(columns.ids.values()))
    for batch in raw:
        if isinstance(batch, Quiet):
            yield batch
            continue
        if kind == "auto" and len(batch.place):
            kind = _kind_of(batch.rows[first_id])
        yield _checked(batch, columns, kind, on_bad_row)


def _checked(batch: RawRows, columns: Columns, kind: IdKind, on_bad_row: OnBadRow) -> TimedRows:
    good = np.ones(len(batch.place), bool)
    time, readable = read_times(batch.rows[columns.time], columns)
    _report(batch, columns.time, good & ~readable, _no_time(columns), on_bad_row)
    good &= readable
    values: dict[str, pa.Array | Floats] = {}
    for name, column in columns.ids.items():
        values[name], readable = _ids(batch.rows[column], kind)
        _report(batch, column, good & ~readable, f"no {kind} id (--ids)", on_bad_row)
        good &= readable
    for name, (column, is_good) in columns.numbers.items():
        values[name], readable = _numbers(batch.rows[column], is_good)
        _report(batch, column, good & ~readable, "out of range or no number", on_bad_row)
        good &= readable
    rows = TimedRows(batch.origin, batch.stream, batch.place, time, pa.table(values))
    return rows if good.all() else rows.where(good)


def _no_time(columns: Columns) -> str:
    return f"no time: neither ISO 8601 nor {columns.time_unit} since 1970 (--time-unit)"


def _report(batch: RawRows, column: str, bad: Mask, why: str, on_bad_row: OnBadRow) -> None:
    for index in np.flatnonzero(bad):
        value = batch.rows[column][int(index)].as_py()
        on_bad_row(BadRow(f"{batch.origin}:{batch.place[index]}: {column} {value!r:.60} is {why}"))


def _kind_of(ids: pa.ChunkedArray) -> IdKind:
    if pa.types.is_integer(ids.type):
        return "integer"
    first = pc.match_substring_regex(ids.cast(pa.string()).slice(0, 1), INTEGER)
    return "integer" if first.to_pylist() == [True] else "string"


def _ids(column: pa.ChunkedArray, kind: IdKind) -> tuple[pa.Array, Mask]:
    """Ids as int64 or text, and which of them are good; bad ones are null."""
    ids = column.combine_chunks()
    if not is_id_type(ids.type):
        return pa.nulls(len(ids), pa.int64()), np.zeros(len(ids), bool)
    if kind == "integer" and pa.types.is_integer(ids.type):
        ids = ids.cast(pa.int64())
        return ids, _mask(ids.is_valid())
    text = ids.cast(pa.string())
    if kind == "integer":
        good = pc.fill_null(pc.match_substring_regex(text, INTEGER), False)
        return pc.if_else(good, text, None).cast(pa.int64()), _mask(good)
    spoilt = pc.or_(pc.equal(text, ""), pc.match_substring(text, UNREADABLE))
    return text, ~_mask(pc.fill_null(spoilt, True))


def _numbers(column: pa.ChunkedArray, is_good: Callable[[Floats], Mask]) -> tuple[Floats, Mask]:
    try:
        array = column.combine_chunks().cast(pa.float64())
    except pa.ArrowInvalid:
        array = pa.array([_float(value) for value in column.to_pylist()], pa.float64())
    numbers = array.to_numpy(zero_copy_only=False)
    return numbers, np.isfinite(numbers) & is_good(numbers)


def _float(text: object) -> float | None:
    try:
        return float(str(text))
    except ValueError:
        return None


def read_times(column: pa.ChunkedArray, columns: Columns) -> tuple[NDArray[np.int64], Mask]:
    """Event times in microseconds since 1970 UTC, and which of them are good."""
    times = column.combine_chunks()
    if pa.types.is_timestamp(times.type):
        return _in_range(_of_timestamps(times, columns.zone))
    if pa.types.is_date(times.type):
        return _in_range(_of_timestamps(times.cast(pa.timestamp("us")), columns.zone))
    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type):
        return _in_range(_of_text(times, columns))
    try:
        return _in_range(_of_numbers(times, columns.time_unit))
    except pa.ArrowException:
        return np.zeros(len(times), np.int64), np.zeros(len(times), bool)


def _of_text(text: pa.Array, columns: Columns) -> pa.Array:
    """Whole columns of one form at once, and mixed ones value by value."""
    forms: tuple[Callable[[], pa.Array], ...] = (
        lambda: _of_numbers(text.cast(pa.int64()), columns.time_unit),
        lambda: _of_numbers(text.cast(pa.float64()), columns.time_unit),
        lambda: text.cast(pa.timestamp("us", "UTC")).cast(pa.int64()),
        lambda: _of_timestamps(text.cast(pa.timestamp("us")), columns.zone),
    )
    for read in forms:
        try:
            return read()
        except pa.ArrowInvalid:
            continue
    return pa.array([_one_time(one, columns) for one in text.to_pylist()], pa.int64())


def _one_time(text: str | None, columns: Columns) -> int | None:
    if text is None:
        return None
    try:
        return _one_number(text, columns.time_unit)
    except (ValueError, OverflowError):
        pass
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    zoned = time if time.tzinfo else time.replace(tzinfo=ZoneInfo(columns.zone))
    return (zoned.astimezone(UTC) - EPOCH) // MICROSECOND


def _one_number(text: str, unit: TimeUnit) -> int | None:
    number = int(text) if text.lstrip("-").isdigit() else float(text)
    found = round(number * 10**6 / PER_SECOND[unit])
    return found if FIRST_TIME <= found < LAST_TIME else None


def _of_numbers(numbers: pa.Array, unit: TimeUnit) -> pa.Array:
    """Microseconds of numbers; null where they are no number or beyond any calendar."""
    values = numbers.cast(pa.float64()).to_numpy(zero_copy_only=False) * (10**6 / PER_SECOND[unit])
    sane = (values > FIRST_TIME) & (values < LAST_TIME)
    if pa.types.is_integer(numbers.type) and not numbers.null_count:
        # Whole numbers stay exact.
        whole = np.where(sane, numbers.to_numpy(zero_copy_only=False), 0).astype(np.int64)
        exact = whole * 10**6 // PER_SECOND[unit] if unit in ("s", "ms", "us") else whole // 1000
        return pa.array(exact, mask=~sane)
    return pa.array(np.where(sane, np.round(values), 0).astype(np.int64), mask=~sane)


def _of_timestamps(times: pa.Array, zone: str) -> pa.Array:
    precise = times.cast(pa.timestamp("us", times.type.tz), safe=False)
    if precise.type.tz is None:
        # A clock that is set back shows some hours twice: the first; set forward, skips: after it.
        precise = pc.assume_timezone(precise, zone, ambiguous="earliest", nonexistent="latest")
    return precise.cast(pa.int64())


def _in_range(times: pa.Array) -> tuple[NDArray[np.int64], Mask]:
    found = pc.fill_null(times, LAST_TIME).to_numpy(zero_copy_only=False).astype(np.int64)
    return found, (found >= FIRST_TIME) & (found < LAST_TIME)


def _mask(booleans: pa.Array) -> Mask:
    mask: Mask = booleans.to_numpy(zero_copy_only=False).astype(bool)
    return mask


def sorted_by_time(arrivals: Iterable[TimedRows | Quiet]) -> Iterator[TimedRows]:
    """All rows of a finite input in order of time, for input that is not in that order.

    Holds all of it in memory.
    """
    together = [batch for batch in arrivals if isinstance(batch, TimedRows)]
    if not together:
        return
    time = np.concatenate([batch.time for batch in together])
    rows = pa.concat_tables([batch.rows for batch in together])
    order = np.argsort(time, kind="stable")
    for first in range(0, len(order), 1 << 16):
        chosen = order[first : first + (1 << 16)]
        place = np.arange(first, first + len(chosen))
        yield TimedRows(together[0].origin, 0, place, time[chosen], rows.take(pa.array(chosen)))
