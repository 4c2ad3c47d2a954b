"""`stream-icd subscribe`: follow the communities topic."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_icd.cli.options import BootstrapServers, kafka_settings

app = typer.Typer(add_completion=False, help="Follow communities as they are found.")


@app.command()
def subscribe(
    graph: Annotated[
        str | None, typer.Option(help="Only this graph; by default all.", show_default=False)
    ] = None,
    start: Annotated[
        str,
        typer.Option("--from", help="beginning, latest, or a time such as 2026-01-31T12:00:00Z."),
    ] = "latest",
    format: Annotated[
        Literal["table", "json", "arrow"],
        typer.Option(help="A table for people, JSON lines for programs, or an Arrow stream."),
    ] = "table",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many.", show_default=False)
    ] = None,
    until: Annotated[
        Literal["forever", "end"], typer.Option(help="end: stop after what is there now.")
    ] = "forever",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Follow the communities topic: one line per snapshot, until Ctrl-C.

    With --format json each line holds the whole result, its nodes and their communities too:

      stream-icd subscribe --from beginning --format json | jq '.n_communities'

    With --format arrow standard output is one Arrow IPC stream, a row per node:

      stream-icd subscribe --from beginning --until end --format arrow > communities.arrows
    """
    from stream_icd.cli import formats
    from stream_icd.pipeline.subscribe import subscribe as follow

    write = {
        "table": formats.write_table,
        "json": formats.write_json_lines,
        "arrow": formats.write_arrow,
    }[format]
    found = follow(
        graph,
        start=formats.parse_start(start),
        until=until,
        limit=limit,
        settings=kafka_settings(bootstrap_servers),
    )
    try:
        write(found)
    except (KeyboardInterrupt, BrokenPipeError):
        # Ctrl-C, or `| head`: the reader has seen enough.
        raise typer.Exit(0) from None
