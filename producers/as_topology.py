"""`stream-icd produce as`: the Internet's topology, a snapshot a day."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.options import (
    Again,
    BootstrapServers,
    Correct,
    Limit,
    PartitionBy,
    Rate,
    Strict,
    checked_graph,
)

app = typer.Typer()


@app.command("as")
def main(
    path: Annotated[
        Path,
        typer.Argument(
            help="as-733.tar.gz, a folder of dated files, one such file (also .gz, .bz2), or "
            "Parquet."
        ),
    ],
    first: Annotated[
        str | None, typer.Option("--from", help="First day, YYYY-MM-DD.", show_default=False)
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="Last day, included.", show_default=False)
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            help="Window length, such as 2h, 1d or month; files of the same window become one "
            "snapshot. Default: a window lasts until the next file.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[str, typer.Option(help="Source URI (ce_source).")] = "urn:stream_icd:as",
    graph: Annotated[
        str | None,
        typer.Option(
            help="Name of the graph, the key of its messages. Default: the name of the file or "
            "folder.",
            callback=checked_graph,
            show_default=False,
        ),
    ] = None,
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send Internet topologies: which autonomous systems exchange traffic.

    One snapshot for each date or time in the file names: daily, monthly or hourly, as the files
    are. The content tells the format: tab-separated pairs (SNAP as-733 and as-caida), CAIDA's
    relationships (as-rel: 701|1239|-1), or routing tables as text (bgpdump -m), whose neighbours
    on AS paths are linked. Parquet needs the columns window_start (date or time), src and dst.

      stream-icd produce as as-733.tar.gz --from 1999-01-01 --rate 2

    A routing table from RIPE or Route Views:

      bgpdump -m rib.20080101.0000.bz2 > rib.20080101.0000.txt

      stream-icd produce as rib.20080101.0000.txt --graph routes
    """
    from stream_icd.datasets.as_topology import read_as_topology
    from stream_icd.programs import SendOptions, run_producer
    from stream_icd.sources.spacing import parse_window

    window_of = None if window is None else parse_window(window)
    days = _day("--from", first), _day("--to", last)
    run_producer(
        lambda run: read_as_topology(
            path,
            first=days[0],
            last=days[1],
            window=window_of,
            graph=graph,
            source=source,
            on_bad_row=run.bad_rows,
        ),
        SendOptions(
            bootstrap_servers=bootstrap_servers,
            rate=rate,
            limit=limit,
            strict=strict,
            again=again,
            correct=correct,
            partition_by=partition_by,
        ),
    )


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(f"{option} {text!r}: give a day as YYYY-MM-DD") from error
