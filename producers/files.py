"""`stream-icd produce files`: a folder into which somebody puts edge lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.programs.options import (
    Again,
    BootstrapServers,
    Correct,
    GraphName,
    Ids,
    Limit,
    PartitionBy,
    Rate,
    Strict,
)

app = typer.Typer()


@app.command("files")
def main(
    folder: Annotated[
        Path, typer.Argument(help="Folder of edge lists: CSV, Parquet, Arrow or GraphML.")
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep running and send new and changed files.")
    ] = False,
    every: Annotated[
        str, typer.Option(help="Polling interval; files that still grow are read later.")
    ] = "2s",
    window: Annotated[
        str | None,
        typer.Option(
            help="Window length, such as 2h, 1d or month. Default: a window lasts until the next "
            "file.",
            show_default=False,
        ),
    ] = None,
    ids: Ids = "auto",
    graph: GraphName = "files",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send the edge lists in a folder: one snapshot per file, in order of file names.

    CSV, TSV and text files have the columns src, dst and optionally weight (without such a header,
    the first two columns are used) and may be compressed (.gz, .bz2). Parquet and Arrow files have
    the same columns. GraphML is read too. A row without dst declares an isolated node. Pickles are
    refused: opening one runs any program that it holds.

    A window starts at the date or time in the file name (2026-01-31, 20260131T1200) and lasts until
    the next file; without one, it is the time of the file's last change.

      stream-icd produce files graphs/ --graph friends

      stream-icd produce files /var/spool/graphs --watch --every 10s
    """
    from stream_icd.programs import SendOptions, run_producer
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.edges.edge_files import watch_edge_files
    from stream_icd.sources.spacing import parse_window

    window_of = None if window is None else parse_window(window)
    every_s = parse_duration(every).total_seconds()
    run_producer(
        lambda run: watch_edge_files(
            folder,
            graph=graph,
            id_kind=ids,
            every_s=every_s if watch else None,
            window=window_of,
            on_bad_row=run.bad_rows,
            count=run.count,
            stop=run.stop,
        ),
        SendOptions(
            bootstrap_servers=bootstrap_servers,
            rate=rate,
            limit=limit,
            strict=strict,
            again=again,
            correct=correct or watch,
            partition_by=partition_by,
        ),
    )
