"""Refuse tables that look like edge lists but are not: labels, a header line, measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

import pyarrow as pa
import pyarrow.compute as pc

from stream_icd.errors import BadInput
from stream_icd.sources.tables.values import INTEGER

LABELS = {"class", "cluster", "communities", "community", "group", "label", "labels", "membership"}
TIMES = ("t", "time", "timestamp", "ts", "datetime")
WINDOW, SNAPSHOT = "window_start", "snapshot"
EXPECTED = "an edge list has the columns src, dst and perhaps weight"
TIME = r"^([0-9]{9,10}|[0-9]{13})(\.[0-9]*)?$|^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:.*)?$"
"""Seconds or milliseconds since 1970, from 1973 on, or ISO 8601."""

FRACTION = r"^[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
A_FEW = 3


def refuse_labels(columns: Sequence[str]) -> None:
    """Refuse a table whose column names show that it holds communities.

    Raises:
        BadInput: the table holds communities.
    """
    for column in columns:
        if column.strip().lower() in LABELS:
            raise BadInput(
                f"column {column} says that this is a table of labels, not of edges; {EXPECTED}"
            )


def time_column(columns: Sequence[str]) -> str | None:
    """Return the column of event times: `t`, or the only one with a usual name; else None."""
    named = [column for column in columns if column.lower() in TIMES]
    return "t" if "t" in named else named[0] if len(named) == 1 else None


def dividing_column(columns: Sequence[str]) -> str | None:
    """Return the column that would divide an edge list into several graphs, if there is one."""
    lower = {column.lower(): column for column in reversed(columns)}
    wanted = (time_column(columns), *(lower.get(name) for name in (*TIMES, WINDOW, SNAPSHOT)))
    return next(filter(None, wanted), None)


def are_times(column: pa.ChunkedArray) -> bool:
    """Whether a column of text without a name holds times, by their form."""
    return len(column) > 0 and _all_match(column, TIME)


def refuse_events(
    times: pa.ChunkedArray, where: str, options: Mapping[str, str], folder: Path
) -> None:
    """Refuse a table of pairs with different times.

    Args:
        where: the column of the times, for people, such as `column t`.
        options: what is needed to read the table as events, in addition to its place.

    Raises:
        BadInput: the times differ; the text has the commands that read events.
    """
    if (n_different := len(times.unique())) < 2:
        return
    if where.lower().endswith(SNAPSHOT):
        raise BadInput(f"{where} names {n_different:,} graphs: write each to a file of its own")
    sent = "".join(f" --{name} {value}".removesuffix(" yes") for name, value in options.items())
    learned = "".join(f",{name}={value.replace(',', ';')}" for name, value in options.items())
    raise BadInput(
        f"{where} holds times: these are events, not one graph. Send them with `stream-icd produce "
        f"events {quote(str(folder))} --window 1d{sent}`, or learn from them with --data "
        f"{quote(f'events:path={folder},window=1d{learned}')}. For one graph, leave the times out"
    )


def refuse_what_is_no_edge_list(tables: Sequence[pa.Table]) -> None:
    """Refuse unnamed columns whose values cannot be the ends of edges.

    Args:
        tables: columns `src` and `dst`, text: the first two of a file without a header.

    Raises:
        BadInput: they hold fractions or a header line, or one holds the same value in each row.
    """
    rows = pa.concat_tables(tables) if tables else None
    if rows is None or not len(rows):
        return
    for number, name in enumerate(("src", "dst"), start=1):
        if _all_match(rows[name], FRACTION):
            raise BadInput(f"column {number} holds fractions, not ids of nodes; {EXPECTED}")
    _refuse_header(rows)
    distinct = [len(rows[name].unique()) for name in ("src", "dst")]
    for number, (here, there) in enumerate((distinct, distinct[::-1]), start=1):
        if here == 1 and there >= A_FEW:
            raise BadInput(
                f"column {number} holds {rows[number - 1][0]} in each row: is it a label? If these "
                "are edges to one node, name the columns in a first line: src,dst"
            )


def _refuse_header(rows: pa.Table) -> None:
    first, rest = rows.slice(0, 1), rows.slice(1)
    is_header = len(rest) and all(
        _all_match(rest[name], INTEGER) and not _all_match(first[name], INTEGER)
        for name in ("src", "dst")
    )
    if is_header:
        names = ", ".join(str(first[name][0]) for name in ("src", "dst"))
        raise BadInput(f"the first line ({names}) is a header without columns of edges; {EXPECTED}")


def _all_match(column: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, pattern)).as_py())
