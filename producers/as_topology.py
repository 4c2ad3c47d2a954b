"""`stream-icd produce as`: the Internet's topology, a snapshot a day."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from stream_icd.cli.options import (
    Again,
    BootstrapServers,
    GraphName,
    Limit,
    PartitionBy,
    Rate,
    Strict,
)
from stream_icd.errors import BadSettings

app = typer.Typer(add_completion=False)


@app.command("as")
def main(
    path: Annotated[
        Path,
        typer.Argument(help="as-733.tar.gz, a folder of days, one day (or .gz, .bz2), or Parquet."),
    ],
    first: Annotated[
        str | None, typer.Option("--from", help="First day, YYYY-MM-DD.", show_default=False)
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="Last day, included.", show_default=False)
    ] = None,
    source: Annotated[
        str, typer.Option(help="Who says so, a URI.")
    ] = "https://snap.stanford.edu/data/as-733.html",
    graph: GraphName = "as733",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send daily Internet topologies: who exchanges traffic with whom among autonomous systems.

    A snapshot a day; the names of the files hold the day. Forms, by content: tab-separated pairs
    (SNAP as-733 and as-caida), CAIDA's relationships (as-rel: 701|1239|-1), and the routes of a
    routing table as text (bgpdump -m), whose neighbours on AS paths are linked. Parquet needs the
    columns window_start (date), src and dst. Several files of a day are one snapshot.

      stream-icd produce as as-733.tar.gz --from 1999-01-01 --to 1999-12-31 --rate 2

    A routing table of RIPE's or Route Views':

      bgpdump -m rib.20080101.0000.bz2 > rib.20080101.0000.txt

      stream-icd produce as rib.20080101.0000.txt --graph routes --source https://routeviews.org
    """
    from stream_icd.cli.run_producer import run_producer
    from stream_icd.sources.as_topology import read_as_topology

    days = _day("--from", first), _day("--to", last)
    run_producer(
        lambda run: read_as_topology(
            path,
            first=days[0],
            last=days[1],
            graph=graph,
            source=source,
            on_bad_row=run.bad_rows,
        ),
        bootstrap_servers=bootstrap_servers,
        rate=rate,
        limit=limit,
        strict=strict,
        again=again,
        partition_by=partition_by,
    )


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(f"{option} {text!r}: give a day as YYYY-MM-DD") from error
