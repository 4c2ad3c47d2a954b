"""Makes snapshots from timed rows, in files or a topic, by a producer's options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from stream_icd.errors import BadSettings
from stream_icd.programs.producer import ProducerRun
from stream_icd.programs.topic_rows import count_partitions, read_topic_rows
from stream_icd.sources.durations import EPOCH, parse_duration
from stream_icd.sources.source import Count, Source, Stop
from stream_icd.sources.tables.late_rows import LateRows
from stream_icd.sources.tables.tables import read_rows
from stream_icd.sources.tables.timed_rows import Columns, sorted_by_time, time_of, timed_rows
from stream_icd.sources.windows import OnLate, Quiet, TimedRows


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The options for the source of rows.

    Raises:
        BadSettings: neither a path nor a topic is given, or both are.
    """

    path: Path | None
    topic: str | None = None
    header: str | None = None
    until: Literal["forever", "end"] = "forever"
    quiet_after: str | None = None
    sort: bool = False

    def __post_init__(self) -> None:
        if (self.path is None) == (self.topic is None):
            raise BadSettings("give either a path to read from, or a topic with --topic")

    def time_column(self, given: str | None) -> str:
        """Return the name of the time column (`timed_rows.time_of`)."""
        return time_of(self.path, self.names, given)

    @property
    def names(self) -> Sequence[str] | None:
        """The columns of files without a header line; None: they have one."""
        return None if self.header is None else [one.strip() for one in self.header.split(",")]


Settings = TypeVar("Settings", contravariant=True)


class Windows(Protocol[Settings]):
    """Makes windows of rows: `event_snapshots`, `taxi_snapshots`."""

    def __call__(
        self,
        arrivals: Iterable[TimedRows | Quiet],
        settings: Settings,
        /,
        *,
        n_streams: int,
        after: datetime | None,
        on_late: OnLate,
        count: Count,
        stop: Stop,
    ) -> Source: ...


def windowed_source(
    windows: Windows[Settings],
    settings: Settings,
    rows: OpenRows,
    run: ProducerRun,
    late_rows: Path,
) -> Source:
    """Return the snapshots of a run; late rows are counted, and written to a file."""
    return windows(
        rows.arrivals,
        settings,
        n_streams=rows.n_streams,
        after=rows.after,
        on_late=LateRows(late_rows, run.count),
        count=run.count,
        stop=run.stop,
    )


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows, the number of ordered streams, and the time before which snapshots are complete."""

    arrivals: Iterable[TimedRows | Quiet]
    n_streams: int = 1
    after: datetime | None = None


def open_rows(
    options: RowOptions, columns: Columns, run: ProducerRun, graph: str, reach: timedelta
) -> OpenRows:
    """Open the rows.

    A file is read from its beginning: snapshots that were already sent are recognised by name. A
    topic is read from the beginning of the windows that follow the last one sent. Events happen
    before they are recorded, so a record with an earlier broker timestamp is not part of those
    windows.

    Args:
        reach: how long before its end a window, and the rows it waits for, may begin.

    Raises:
        SourceNotFound, BadSettings, BrokerError: see these classes.
    """
    if options.topic is None:
        assert options.path is not None
        raw = read_rows(options.path, columns.names, run.bad_rows, header=options.names)
        rows = timed_rows(raw, columns, run.bad_rows)
        return OpenRows(sorted_by_time(rows) if options.sort else rows)
    after = run.sent_before.ends.get(graph)
    quiet_after = options.quiet_after
    records = read_topic_rows(
        run.settings,
        options.topic,
        columns.names,
        run.bad_rows,
        since=None if after is None else max(after, EPOCH + reach) - reach,
        until=options.until,
        quiet_after_s=None if quiet_after is None else parse_duration(quiet_after).total_seconds(),
        stop=run.stop,
    )
    n_streams = count_partitions(run.settings, options.topic)
    return OpenRows(timed_rows(records, columns, run.bad_rows), n_streams, after)
