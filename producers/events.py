"""`stream-icd produce events`: mails, calls, payments: timed pairs, cut into windows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_icd.cli.options import (
    Again,
    BootstrapServers,
    GraphName,
    Ids,
    Late,
    Lateness,
    Limit,
    PartitionBy,
    QuietAfter,
    Rate,
    Sort,
    Strict,
    Topic,
    Unit,
    Until,
    Zone,
)

app = typer.Typer(add_completion=False)


@app.command("events")
def main(
    path: Annotated[
        Path | None,
        typer.Argument(help="CSV, JSON lines or Parquet, also .gz; or a folder of such files."),
    ] = None,
    topic: Topic = None,
    window: Annotated[str, typer.Option(help="Length of a window, such as 1h or 3d.")] = "1h",
    hop: Annotated[
        str | None,
        typer.Option(
            help="Begin a window so often, if not just where the last one ends: they overlap.",
            show_default=False,
        ),
    ] = None,
    align: Annotated[
        str, typer.Option(help="Begin windows so long after multiples of --hop since 1970 UTC.")
    ] = "0s",
    session: Annotated[
        str | None,
        typer.Option(
            help="Windows that end where nothing happens for so long, instead of --window.",
            show_default=False,
        ),
    ] = None,
    lateness: Lateness = "0s",
    late: Late = None,
    time: Annotated[str, typer.Option(help="Column of the times.")] = "t",
    src: Annotated[str, typer.Option(help="Column of who.")] = "src",
    dst: Annotated[str, typer.Option(help="Column of whom.")] = "dst",
    weight: Annotated[
        str | None,
        typer.Option(
            help="Column whose sum an edge weighs; count: how many events it had. By default "
            "edges have no weight.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names of a file's columns, such as src,dst,t, where its first line is a row.",
            show_default=False,
        ),
    ] = None,
    time_unit: Unit = "s",
    zone: Zone = "UTC",
    ids: Ids = "auto",
    least_nodes: Annotated[
        int, typer.Option(min=2, help="Leave out windows of fewer nodes; they are counted.")
    ] = 2,
    sort: Sort = False,
    until: Until = "forever",
    quiet_after: QuietAfter = None,
    graph: GraphName = "events",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send a graph for each window of a stream of timed pairs: who mailed, called or paid whom.

    Windows lie in the time at which events happened, not at which they are read. One is sent when
    an event has come that is --lateness past its end; what comes later still is counted and kept
    (--late-rows). Run it again, and it goes on after the last window that the topic holds.

    Mails in windows of three days, of SNAP's file as it is:

      stream-icd produce events email-Eu-core-temporal.txt.gz --columns src,dst,t --window 3d

    Payments as they happen, the last hour every five minutes, waiting half a minute for stragglers:

      stream-icd produce events --topic payments --window 1h --hop 5m --lateness 30s
    """
    from urllib.parse import quote

    from stream_icd.cli.open_rows import RowOptions, open_rows
    from stream_icd.cli.run_producer import Run, run_producer
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.events import EventSettings, event_snapshots
    from stream_icd.sources.late_rows import LateRows
    from stream_icd.sources.source import Source
    from stream_icd.sources.timed_rows import Columns
    from stream_icd.sources.windows import Hopping, Rule, Session

    weights = {} if weight in (None, "count") else {"weight": (weight, lambda given: given > 0)}
    wanted = Columns(time, {"src": src, "dst": dst}, weights, time_unit, zone, ids)
    options = RowOptions(path, topic, columns, until, quiet_after, sort)
    size = parse_duration(session or window)
    rule: Rule = (
        Session(size)
        if session
        else Hopping(size, parse_duration(hop or window), parse_duration(align))
    )
    settings = EventSettings(
        graph=graph,
        rule=rule,
        lateness=parse_duration(lateness),
        counted=weight == "count",
        least_nodes=least_nodes,
        source="urn:stream_icd:events" + (f"?weight={quote(weight)}" if weight else ""),
    )

    def open_source(run: Run) -> Source:
        rows = open_rows(options, wanted, run, graph, size + settings.lateness)
        return event_snapshots(
            rows.arrivals,
            settings,
            n_streams=rows.n_streams,
            after=rows.after,
            on_late=LateRows(late or Path(f"{graph}.late.jsonl"), run.count),
            count=run.count,
            stop=run.stop,
        )

    run_producer(
        open_source,
        bootstrap_servers=bootstrap_servers,
        rate=rate,
        limit=limit,
        strict=strict,
        again=again,
        partition_by=partition_by,
    )
