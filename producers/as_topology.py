"""`stream-icd produce as`: the Internet's topology, a snapshot a day."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from stream_icd.cli.options import BootstrapServers, Limit, Rate, Strict
from stream_icd.errors import BadSettings

app = typer.Typer(add_completion=False)


@app.command("as")
def main(
    path: Annotated[
        Path, typer.Argument(help="as-733.tar.gz, its unpacked directory, one day, or Parquet.")
    ],
    first: Annotated[
        str | None, typer.Option("--from", help="First day, YYYY-MM-DD.", show_default=False)
    ] = None,
    last: Annotated[
        str | None, typer.Option("--to", help="Last day, included.", show_default=False)
    ] = None,
    graph: Annotated[str, typer.Option(help="Name of the graph: the key.")] = "as733",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send daily Internet topologies: who exchanges traffic with whom among autonomous systems.

    Reads what SNAP offers as AS-733 (https://snap.stanford.edu/data/as-733.html): files named
    asYYYYMMDD.txt, tab-separated pairs, comments with #. Parquet needs the columns window_start
    (date), src and dst.

      stream-icd produce as as-733.tar.gz --from 1999-01-01 --to 1999-12-31 --rate 2
    """
    from stream_icd.cli.run_producer import run_producer
    from stream_icd.sources.as_topology import read_as_topology

    days = _day("--from", first), _day("--to", last)
    run_producer(
        lambda on_bad_row: read_as_topology(
            path, first=days[0], last=days[1], graph=graph, on_bad_row=on_bad_row
        ),
        bootstrap_servers=bootstrap_servers,
        rate=rate,
        limit=limit,
        strict=strict,
    )


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(f"{option} {text!r}: give a day as YYYY-MM-DD") from error
