"""Makes snapshots from timed rows, in files or a topic, by a producer's options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from stream_icd.kafka.topics import describe_topic
from stream_icd.programs.options import RowOptions
from stream_icd.programs.producer import ProducerRun
from stream_icd.programs.topic_rows import read_topic_rows
from stream_icd.sources.durations import EPOCH, parse_duration
from stream_icd.sources.source import Source
from stream_icd.sources.tables import read_rows
from stream_icd.sources.timed_rows import (
    Columns,
    Number,
    sorted_by_time,
    time_of,
    timed_rows,
)
from stream_icd.sources.windows import Quiet, TimedRows, Windowing, windowed_snapshots


def windowed_source(
    options: RowOptions,
    settings: Windowing,
    ids: Mapping[str, str],
    numbers: Mapping[str, Number],
    run: ProducerRun,
    reach: timedelta,
) -> Source:
    """Open the snapshots of a run.

    A file is read from its beginning: snapshots that were already sent are recognised by name. A
    topic is read from the beginning of the windows that follow the last one sent. Events happen
    before they are recorded, so a record with an earlier broker timestamp is not part of those
    windows.

    Args:
        ids, numbers: see `Columns`.
        reach: how long before its end a window, and the rows it waits for, may begin.

    Raises:
        SourceNotFound, BadSettings, BrokerError: see these classes.
    """
    header = None
    if options.columns is not None:
        header = [name.strip() for name in options.columns.split(",")]
    time = time_of(options.path, header, options.time)
    columns = Columns(time, ids, numbers, options.time_unit, options.zone, options.ids)
    n_streams, after = 1, None
    if options.path is not None:
        rows = _rows_of_files(options.path, options, header, columns, run)
    else:
        assert options.topic is not None
        after = run.sent_before.ends.get(options.graph)
        rows = _rows_of_topic(options.topic, options, columns, run, after, reach)
        n_streams = describe_topic(run.settings, options.topic).partitions
    return windowed_snapshots(
        rows,
        settings,
        n_streams=n_streams,
        after=after,
        on_late=run.on_late(options.late_rows or Path(f"{options.graph}.late.jsonl")),
        count=run.count,
        stop=run.stop,
    )


def _rows_of_files(
    path: Path,
    options: RowOptions,
    header: Sequence[str] | None,
    columns: Columns,
    run: ProducerRun,
) -> Iterable[TimedRows | Quiet]:
    raw = read_rows(path, columns.names, run.bad_rows, header=header)
    rows = timed_rows(raw, columns, run.bad_rows)
    return sorted_by_time(rows) if options.sort else rows


def _rows_of_topic(
    topic: str,
    options: RowOptions,
    columns: Columns,
    run: ProducerRun,
    after: datetime | None,
    reach: timedelta,
) -> Iterable[TimedRows | Quiet]:
    quiet_after = options.quiet_after
    records = read_topic_rows(
        run.settings,
        topic,
        columns.names,
        run.bad_rows,
        since=None if after is None else max(after, EPOCH + reach) - reach,
        until=options.until,
        quiet_after_s=None if quiet_after is None else parse_duration(quiet_after).total_seconds(),
        stop=run.stop,
    )
    return timed_rows(records, columns, run.bad_rows)
