"""`stream-icd produce files`: a folder into which somebody puts edge lists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.cli.options import (
    Again,
    BootstrapServers,
    GraphName,
    Ids,
    Limit,
    PartitionBy,
    Rate,
    Strict,
)

app = typer.Typer(add_completion=False)


@app.command("files")
def main(
    folder: Annotated[
        Path, typer.Argument(help="Folder of edge lists: CSV, Parquet, Arrow, GraphML.")
    ],
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and send files that come or change.")
    ] = False,
    every: Annotated[
        str, typer.Option(help="How often to look; a file that still grows has to wait.")
    ] = "2s",
    window: Annotated[
        str | None,
        typer.Option(
            help="Window length, such as 2h, 1d or month. By default a window lasts until the next "
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
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send the edge lists in a folder, one snapshot a file, in the order of their names.

    CSV, TSV and text (columns src, dst and perhaps weight, or the first two columns where no
    header says so), Parquet and Arrow (the same columns), GraphML; each text also as .gz or .bz2.
    An edge without dst declares a node that has none. Pickles are refused, since opening one runs
    whatever program it holds.

    A snapshot's window is the day or the moment in the file's name (2026-01-31, 20260131T1200),
    else the moment at which the file was last changed.

      stream-icd produce files graphs/ --graph friends

      stream-icd produce files /var/spool/graphs --watch --every 10s
    """
    from stream_icd.cli.run_producer import run_producer
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.edge_files import watch_edge_files
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
            stop=run.stop,
        ),
        bootstrap_servers=bootstrap_servers,
        rate=rate,
        limit=limit,
        strict=strict,
        again=again,
        partition_by=partition_by,
    )
