"""Rows with an event time: checked, in order, and as the graph of each time window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from stream_icd.core.arrays import Floats
from stream_icd.core.errors import BadRow, BadSettings, LimitExceeded
from stream_icd.core.snapshot import EPOCH, Snapshot, Window, snapshot_from_pairs
from stream_icd.core.times import snapshot_id, time_at
from stream_icd.sources.source import OnBadRow, RawRows
from stream_icd.sources.values import (
    IdForm,
    IdKind,
    KindBefore,
    Mask,
    TimeUnit,
    read_numbers,
    read_times,
    shown_value,
)
from stream_icd.sources.windows import Quiet, TimedRows, WindowRule
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

_A_TIME = datetime(2026, 12, 31, 13, 5, 6, 789_000, UTC)
_STARTS = {
    datetime(*(*_A_TIME.timetuple()[:6], _A_TIME.microsecond)[:n], *(1, 1, 1, 0, 0, 0, 0)[n:])  # type: ignore[arg-type]
    for n in range(1, 8)
}
"""The starts of the year, month, day, … of this time: a form leaves out only its last parts."""

Number = tuple[str, Callable[[Floats], Mask]]
"""The name of a column of numbers, and a check of which values (n,) are good."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table of timed rows.

    Raises `BadSettings` if the time zone is unknown, or `time_format` is no format of times.
    """

    time: str  # the column of event times: ISO 8601 text, timestamps, or numbers
    ids: Mapping[str, str]  # internal name of each node id, and the name of its column
    numbers: Mapping[str, Number] = field(default_factory=dict)  # by internal names, too
    time_unit: TimeUnit = "s"  # of numeric times, which count from 1970 UTC
    zone: str = "UTC"  # IANA time zone of times without one
    id_kind: IdKind = "auto"  # auto: that of the graph, or the one that holds the first ids
    kind_before: KindBefore = lambda: "auto"
    time_format: str | None = None  # of times in text, as of `strptime`

    def __post_init__(self) -> None:
        if self.time_format is not None:
            _check_time_format(self.time_format)
        try:
            if self.zone != "UTC":  # which Arrow reads without the time zones of the system
                pc.assume_timezone(pa.nulls(1, pa.timestamp("us")), self.zone)
        except ValueError as error:
            raise BadSettings(
                f"this system has no time zone {self.zone!r}; give an IANA name such as "
                "Asia/Shanghai, and install the system's package tzdata if it has none at all"
            ) from error

    @property
    def names(self) -> list[str]:
        """The names of all columns, each once."""
        numbers = [column for column, _ in self.numbers.values()]
        return list(dict.fromkeys((self.time, *self.ids.values(), *numbers)))

    def read(
        self, raw: Iterable[RawRows | Quiet], on_bad_row: OnBadRow
    ) -> Iterator[TimedRows | Quiet]:
        """Yield the good rows of each batch, with ids and numbers under their internal names.

        All ids have one type: `id_kind`, or if it is `auto`, that of the graph so far, or else
        the one that holds all ids of the first batch that has any.
        """
        ids, looked = IdForm(self.id_kind), False
        for batch in raw:
            if isinstance(batch, Quiet):
                yield batch
                continue
            if ids.kind == "auto":
                ends = {column: batch.rows[column] for column in self.ids.values()}
                ids = IdForm.of(ends, self.kind_before, untyped=batch.untyped)
                if ids.odd is not None:
                    structlog.get_logger().warning(
                        "numbers and other ids are in one column, so all ids are text (--ids)",
                        origin=batch.origin,
                        id=ids.odd,
                    )
            checked = self._checked(batch, ids, on_bad_row)
            if not looked and len(checked.time):
                looked = True
                _warn_of_1970(checked)
            yield checked

    def _checked(self, batch: RawRows, ids: IdForm, on_bad_row: OnBadRow) -> TimedRows:
        good = np.ones(len(batch.place), bool)
        values: dict[str, pa.Array | Floats] = {}

        def check(column: str, readable: Mask, why: Callable[[pa.Scalar], str]) -> None:
            for index in np.flatnonzero(good & ~readable):
                where, value = batch.place[index], batch.rows[column][int(index)]
                reason = f"{column} {shown_value(value)!r:.60} is {why(value)}"
                on_bad_row(BadRow(f"{batch.origin}:{where}: {reason}"))
            good[~readable] = False

        times = batch.rows[self.time]
        time, readable = read_times(times, self.time_unit, self.zone, self.time_format)
        if self.time_format is None:
            why = (
                f"not a time: neither ISO 8601, such as 2026-01-31, nor {self.time_unit} since "
                "1970 (--time-unit); for another form, such as 12/31/2026, --time-format"
            )
        else:
            why = f"not a time of the form {self.time_format!r} (--time-format)"
        check(self.time, readable, lambda _: why)
        for name, column in self.ids.items():
            values[name], readable = ids.read(batch.rows[column], column)
            check(column, readable, ids.fault)
        for name, (column, is_good) in self.numbers.items():
            values[name], readable = read_numbers(batch.rows[column], is_good)
            check(column, readable, lambda _: "out of range or not a number")
        rows = TimedRows(batch.origin, batch.stream, batch.place, time, pa.table(values))
        return rows if good.all() else rows.where(good)


def _check_time_format(form: str) -> None:
    """Raise `BadSettings` unless times written in this form of `strptime` can be read again.

    >>> _check_time_format("%m/%d/%Y %I:%M %p")
    """
    try:
        text = _A_TIME.strftime(form)
        read = datetime.strptime(text, form)
        same = read.strftime(form) == text and read.replace(tzinfo=None) in _STARTS
    except ValueError:
        same = False
    if not same or "%Z" in form or ("%p" in form and "%I" not in form):  # which Python ignores
        raise BadSettings(
            f"--time-format {form!r} does not give a time of a year: write a form of Python's "
            "strptime, such as %m/%d/%Y %I:%M %p; %p belongs to %I, and a zone is %z or --zone"
        )


def _warn_of_1970(rows: TimedRows) -> None:
    """Warn if the first time is of that year, as are years and days that count as seconds."""
    first = time_at(int(rows.time[0]))
    if first.year == EPOCH.year:
        structlog.get_logger().warning(
            "times of 1970: if they are years or days, write 2026-01-31; else see --time-unit",
            at=f"{rows.origin}:{rows.place[0]}",
            first=first.isoformat(),
        )


def sorted_by_time(
    arrivals: Iterable[TimedRows | Quiet], limits: Limits = DEFAULT_LIMITS
) -> Iterator[TimedRows]:
    """Sort all rows of a finite input by time; holds all of it in memory.

    Raises `LimitExceeded` if it has more rows than `limits` allow.
    """
    together, n_rows = list[TimedRows](), 0
    for batch in arrivals:
        if isinstance(batch, TimedRows) and len(batch.time):  # others may have ids of no type
            together.append(batch)
            if (n_rows := n_rows + len(batch.time)) > limits.rows:
                raise LimitExceeded(
                    f"more than {limits.rows:,} rows to sort in memory: sort the files by time and "
                    "leave out --sort, or set STREAM_ICD_LIMITS_ROWS"
                )
    if not together:
        return
    time = np.concatenate([batch.time for batch in together])
    rows = pa.concat_tables([batch.rows for batch in together])
    order = np.argsort(time, kind="stable")
    for first in range(0, len(order), 1 << 16):
        chosen = order[first : first + (1 << 16)]
        place = np.arange(first, first + len(chosen))
        yield TimedRows(together[0].origin, 0, place, time[chosen], rows.take(pa.array(chosen)))


@dataclass(frozen=True, slots=True)
class EventSettings:
    """How events become snapshots; raises `BadSettings` if `least_nodes` is below two.

    The weight of an edge is its number of events (`counted`), or the sum of their `weight`, if they
    have one.
    """

    graph: str
    rule: WindowRule
    lateness: timedelta = timedelta(0)  # how far behind the newest event another may arrive
    counted: bool = False
    least_nodes: int = 2  # windows with fewer make no snapshot
    source: str = "urn:stream_icd:events"  # of the snapshots (`ce_source`)

    def __post_init__(self) -> None:
        if self.least_nodes < 2:
            raise BadSettings(f"least_nodes={self.least_nodes}; an edge has two nodes")

    def snapshot(self, window: Window, rows: pa.Table) -> Snapshot | None:
        """Return the graph of a window of events: rows of `src`, `dst` and perhaps `weight`."""
        weights = rows["weight"].to_numpy() if "weight" in rows.column_names else None
        if pc.all(pc.equal(rows["src"], rows["dst"])).as_py():
            return None  # only self loops make no snapshot
        snapshot = snapshot_from_pairs(
            rows["src"],
            rows["dst"],
            graph=self.graph,
            id=snapshot_id(self.graph, window),
            window=window,
            weights=np.ones(len(rows)) if self.counted else weights,
            source=self.source,
        )
        return snapshot if snapshot.n_nodes >= self.least_nodes else None
