"""Divide a stream of timed rows into windows of event time.

Rows carry the time at which something happened, and arrive more or less in that order. The
watermark of a stream is its newest event time less the allowed lateness; a window closes, once and
for all, when the watermark has passed its end, and a row that comes after the windows it belongs to
is late. (Akidau et al., "The Dataflow Model", VLDB 2015.)

Where rows come in several streams (the partitions of a topic), a window waits for all of them, and
whether a row is late depends on its own stream alone. So what a window holds is a function of the
streams, however they happen to be interleaved and however the rows are batched.

Times are int64, microseconds since 1970 UTC.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import structlog
from numpy.typing import NDArray

from stream_icd.core.errors import BadSettings, LimitExceeded
from stream_icd.core.snapshot import Snapshot, Window
from stream_icd.core.store.whole_file import writing
from stream_icd.core.times import microseconds, time_at, window_at
from stream_icd.sources.source import Count, Source, count_nothing
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits

_Times = NDArray[np.int64]
_Time = TypeVar("_Time", int, _Times)
_Spans = Iterable[tuple[int, int]]
"""Start and end of windows."""

NEVER = np.iinfo(np.int64).min // 4
_FOREVER = np.iinfo(np.int64).max // 4


@dataclass(frozen=True, slots=True, eq=False)
class TimedRows:
    """Rows as they arrived."""

    origin: str  # a file's name, or a topic's
    stream: int  # number of their ordered stream, from 0
    place: _Times  # (n,) line or offset of each in its origin
    time: _Times  # (n,) event times
    rows: pa.Table  # (n rows) the other columns

    def where(self, mask: NDArray[np.bool_]) -> TimedRows:
        rows = self.rows.filter(pa.array(mask))
        return TimedRows(self.origin, self.stream, self.place[mask], self.time[mask], rows)


@dataclass(frozen=True, slots=True)
class Quiet:
    """Idle streams; windows do not wait for them."""

    streams: frozenset[int]


OnLate = Callable[[TimedRows], None]
"""Called with late rows, which were left out of one or more windows."""

OnOpen = Callable[[int, Sequence[int]], None]
"""Called with the number of rows of open windows, and the streams without a row that they await."""


@dataclass(frozen=True, slots=True)
class Hopping:
    """Windows of one size that begin every `hop`: `[align + i·hop, align + i·hop + size)`.

    Tumbling windows are those whose hop is their size.

    Raises `BadSettings` if `size` or `hop` is not positive, or rows would fall between windows.
    """

    size: timedelta
    hop: timedelta
    align: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.hop <= self.size:
            raise BadSettings(
                f"windows of {self.size} every {self.hop}: both must be above 0, and the "
                "interval at most the length, so that no row falls between two windows"
            )

    def late(self, time: _Times, watermark: _Times) -> NDArray[np.bool_]:
        """Which rows miss a window that they belong to, given the watermark that each found."""
        size = microseconds(self.size)
        return self._next_start(time - size) + size <= watermark

    def lost(self, time: _Times, watermark: _Times) -> NDArray[np.bool_]:
        """Which rows miss every window that they belong to."""
        return time < self._next_start(watermark - microseconds(self.size))

    def may_close(self, time: _Times, watermark: int, closes: int = _FOREVER) -> int:
        """A time before which no window closes: of these rows, and those held (`closes`)."""
        return min(closes, self._first_end(int(time.min()), watermark))

    def closed(self, time: _Times, after: int, watermark: int) -> tuple[_Spans, int]:
        """Windows of ascending times with `after < end <= watermark`; where open ones begin."""
        open_from = self._next_start(watermark - microseconds(self.size))
        return self._spans(time, after, watermark), open_from

    def _spans(self, time: _Times, after: int, watermark: int) -> _Spans:
        """Yield each when it is asked for: with a short hop, they are many more than the rows."""
        size, hop = microseconds(self.size), microseconds(self.hop)
        end = self._first_end(int(time[0]), after)
        while end <= watermark:
            row = int(np.searchsorted(time, end - size))
            if row == len(time):
                break
            if time[row] < end:
                yield end - size, end
                end += hop
            else:  # empty window: go to the first window of the next row
                end = self._first_end(int(time[row]), after)

    def _first_end(self, earliest: int, watermark: int) -> int:
        """Return the end of the first window of this time that the watermark has not passed."""
        size = microseconds(self.size)
        return self._next_start(max(earliest, watermark) - size) + size

    def _next_start(self, time: _Time) -> _Time:
        """Return the first start of a window after this time, or after each."""
        hop, align = microseconds(self.hop), microseconds(self.align)
        return (time - align) // hop * hop + hop + align


@dataclass(frozen=True, slots=True)
class Session:
    """Windows that last as long as no `gap` passes without a row: `[first, last + gap)`.

    A row is late when the watermark has passed it, because it could belong to a closed session.

    Raises `BadSettings` if `gap` is not positive.
    """

    gap: timedelta

    def __post_init__(self) -> None:
        if self.gap <= timedelta(0):
            raise BadSettings(f"session gap {self.gap}: it must be above 0")

    def late(self, time: _Times, watermark: _Times) -> NDArray[np.bool_]:
        return time < watermark

    def lost(self, time: _Times, watermark: _Times) -> NDArray[np.bool_]:
        return self.late(time, watermark)

    def may_close(self, time: _Times, watermark: int, closes: int = _FOREVER) -> int:  # noqa: ARG002
        gap = microseconds(self.gap)
        ascending = np.sort(np.append(time, closes - gap))  # with the last row of the first session
        return int(ascending[np.argmax(np.diff(ascending, append=_FOREVER) >= gap)]) + gap

    def closed(self, time: _Times, after: int, watermark: int) -> tuple[_Spans, int]:  # noqa: ARG002
        gap = microseconds(self.gap)
        first = np.flatnonzero(np.diff(time, prepend=NEVER) >= gap)
        ends = time[np.append(first[1:], len(time)) - 1] + gap
        sessions = zip(time[first].tolist(), ends.tolist(), strict=True)
        spans = [(start, end) for start, end in sessions if end <= watermark]
        return spans, spans[-1][1] if spans else NEVER


WindowRule = Hopping | Session
"""How time is divided into windows."""


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """Rows of open windows."""

    time: _Times
    met: _Times  # (n,) the watermark when each arrived
    order: _Times  # (2, n) stream and place of each
    rows: pa.Table

    def take(self, chosen: _Times) -> _Held:
        rows = self.rows.take(pa.array(chosen))
        return _Held(self.time[chosen], self.met[chosen], self.order[:, chosen], rows)


def _cut_windows(
    arrivals: Iterable[TimedRows | Quiet],
    settings: Windowing,
    n_streams: int,
    on_late: OnLate,
    on_open: OnOpen | None,
    limits: Limits,
    stop: Event,
) -> Iterator[tuple[Window, pa.Table]]:
    """Yield each window that holds a row, once, in order of ends, with its rows in time order."""
    rule, slack = settings.rule, microseconds(settings.lateness)
    newest = np.full(n_streams, NEVER, np.int64)
    watermark, closes = NEVER, _FOREVER
    quiet: frozenset[int] = frozenset()
    batches: list[_Held] = []
    n_held = 0
    for arrived in arrivals:
        if stop.is_set():
            return
        if isinstance(arrived, Quiet):
            quiet = arrived.streams
        elif len(arrived.time):
            more = arrived.stream + 1 - len(newest)  # as if partitions were added to a topic
            newest = np.append(newest, np.full(max(0, more), NEVER))
            accepted, newest[arrived.stream] = _accept(
                arrived, rule, int(newest[arrived.stream]), slack, watermark, on_late
            )
            if len(accepted.time):
                closes = rule.may_close(accepted.time, watermark, closes)
                batches.append(accepted)
                n_held += len(accepted.time)
                if n_held > limits.rows:
                    raise LimitExceeded(
                        f"open windows hold more than {limits.rows:,} rows: choose shorter windows "
                        "or less lateness, or set STREAM_ICD_LIMITS_ROWS"
                    )
        waited_for = [n for stream, n in enumerate(newest.tolist()) if stream not in quiet]
        reached = max(watermark, min(waited_for, default=NEVER) - slack)
        if closes <= reached:  # else all held rows would be sorted at each batch of a long session
            batches, windows = _close(batches, rule, watermark, reached)
            yield from windows
            closes = min((rule.may_close(h.time, reached) for h in batches), default=_FOREVER)
            n_held = sum(len(h.time) for h in batches)
        watermark = reached  # after windows are closed, which end above the watermark before
    if not batches or stop.is_set():  # open windows lack rows: the next run reads these again
        return
    if on_open is None:
        yield from _close(batches, rule, watermark, _FOREVER)[1]
    else:
        missing = [stream for stream, n in enumerate(newest.tolist()) if n == NEVER]
        on_open(n_held, [s for s in missing if s not in quiet])


def _accept(
    arrived: TimedRows, rule: WindowRule, newest: int, slack: int, watermark: int, on_late: OnLate
) -> tuple[_Held, int]:
    """Return the rows that an open window accepts, and the newest time of their stream."""
    newest_after = np.maximum.accumulate(np.maximum(arrived.time, newest))
    newest_before = np.concatenate([[newest], newest_after[:-1]])
    # Above the stream's own watermark only where windows did not wait for it, being quiet.
    met = np.maximum(newest_before - slack, watermark)
    late = rule.late(arrived.time, met)
    if late.any():
        on_late(arrived.where(late))
    order = np.stack([np.full_like(arrived.place, arrived.stream), arrived.place])
    everything = _Held(arrived.time, met, order, arrived.rows)
    accepted = np.flatnonzero(~rule.lost(arrived.time, met))
    return everything.take(accepted), int(newest_after[-1])


def _close(
    batches: list[_Held], rule: WindowRule, after: int, watermark: int
) -> tuple[list[_Held], Iterator[tuple[Window, pa.Table]]]:
    """Take the closing windows out of the held rows; each copies its rows when it is asked for."""
    together = _Held(
        np.concatenate([h.time for h in batches]),
        np.concatenate([h.met for h in batches]),
        np.concatenate([h.order for h in batches], axis=1),
        pa.concat_tables([h.rows for h in batches]),
    )
    # Independent of the order of arrival: by time, then by stream and place.
    together = together.take(np.lexsort((*together.order[::-1], together.time)))
    spans, open_from = rule.closed(together.time, after, watermark)
    still_open = np.flatnonzero(together.time >= open_from)
    return ([together.take(still_open)] if len(still_open) else []), _windows(together, spans)


def _windows(rows_held: _Held, spans: _Spans) -> Iterator[tuple[Window, pa.Table]]:
    for start, end in spans:
        first, last = np.searchsorted(rows_held.time, [start, end])
        in_time = np.flatnonzero(rows_held.met[first:last] < end)
        if len(in_time):
            rows = rows_held.rows.slice(first, last - first).take(pa.array(in_time))
            yield window_at(start, end), rows


class Windowing(Protocol):
    """How rows become snapshots: `EventSettings`, `TaxiSettings`."""

    @property
    def rule(self) -> WindowRule: ...

    @property
    def lateness(self) -> timedelta:
        """How far behind the newest row another may arrive."""

    def snapshot(self, window: Window, rows: pa.Table) -> Snapshot | None:
        """Return the snapshot of a window, or None if it is too small to make one."""


def windowed_snapshots(
    arrivals: Iterable[TimedRows | Quiet],
    settings: Windowing,
    *,
    n_streams: int = 1,
    after: datetime | None = None,
    on_late: OnLate,
    on_open: OnOpen | None = None,
    limits: Limits = DEFAULT_LIMITS,
    count: Count = count_nothing,
    stop: Event = Event(),
) -> Source:
    """Yield a snapshot for each window that holds a row, and ends after the time `after`.

    A row may arrive so late behind the newest one of its stream as the settings say; a window waits
    so long for each of `n_streams`, and for others from their first row on. At the end of the
    arrivals, open windows are closed: nothing comes after the end of a file. If more rows may come,
    as in a topic, give `on_open`: open windows then stay open, and only their number of rows is
    reported. After `stop`, they are discarded as incomplete.

    Counts `small_windows`, which make no snapshot, and `earlier_windows`, which were already made.
    Raises `LimitExceeded` if open windows hold more rows than `limits` allow.
    """
    windows = _cut_windows(arrivals, settings, n_streams, on_late, on_open, limits, stop)

    def snapshots() -> Iterator[tuple[Snapshot, None]]:
        for window, rows in windows:
            if after is not None and window.end <= after:
                count("earlier_windows", 1)
            elif (snapshot := settings.snapshot(window, rows)) is None:
                count("small_windows", 1)
            else:
                yield snapshot, None

    return Source(None, snapshots())


_LATE_ROW = b'{"at": "'
"""How each line of a file of late rows begins."""


class LateRows:
    """Appends late rows to a file of JSON lines, created at the first late row.

    Each line records where its row was read (`at`), so that a row read again after a restart is
    not written twice. A line that a crash cut off is removed. The log names the file once.
    Raises `BadSettings` if the file cannot be read, has other content, or is in no folder;
    `StoreUnwritable`, such as for a full disk: no part of a line stays.
    """

    def __init__(self, path: Path, count: Count) -> None:
        self._path, self._count = path, count
        self._known = _known(path)
        self._reported = False

    def __call__(self, late: TimedRows) -> None:
        self._count("late_rows", len(late.place))
        if not self._reported:
            structlog.get_logger().warning(
                "rows arrived too late for their windows (--sort sorts files, --lateness waits)",
                file=str(self._path),
            )
            self._reported = True
        rows = late.rows.to_pylist()
        lines = []
        for place, time, row in zip(late.place.tolist(), late.time.tolist(), rows, strict=True):
            at = f"{late.origin}:{place}"
            if at not in self._known:
                lines.append(json.dumps({"at": at, "time": time_at(time).isoformat(), **row}))
        with writing(self._path, ": make room there"):
            _append(self._path, "".join(f"{line}\n" for line in lines).encode())


def _append(path: Path, lines: bytes) -> None:
    """Append all lines, or none if the disk is full."""
    # Without a buffer, which would be written when the file is closed: too late to take it back.
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while lines:
                lines = lines[file.write(lines) :]
        except OSError:
            file.truncate(before)
            raise


def _known(path: Path) -> set[str]:
    if not path.parent.is_dir():
        raise BadSettings(f"there is no folder {path.parent}: make it, or give another --late-rows")
    if not path.exists():
        return set()
    try:
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        places = {json.loads(line)["at"] for line in content[:whole].splitlines()}
        if cut_off := content[whole:]:
            if not _LATE_ROW.startswith(cut_off[: len(_LATE_ROW)]):
                raise ValueError(f"it ends with {cut_off!r:.40}")
            os.truncate(path, whole)  # else the next row would continue this line
        return places
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadSettings(
            f"{path} does not hold late rows ({error}); give another file with --late-rows"
        ) from error
