"""`stream-icd produce events`: mails, calls, payments: timed pairs, cut into windows."""

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
    Late,
    Lateness,
    Limit,
    PartitionBy,
    QuietAfter,
    Rate,
    Sort,
    Strict,
    TimeColumn,
    Topic,
    Unit,
    Until,
    Zone,
)

app = typer.Typer()


@app.command("events")
def main(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, JSON lines or Parquet file (also .gz), or a folder of such files."
        ),
    ] = None,
    topic: Topic = None,
    window: Annotated[str, typer.Option(help="Window length, such as 1h or 3d.")] = "1h",
    hop: Annotated[
        str | None,
        typer.Option(
            help="Start a window at this interval, such as 5m (windows overlap). Default: at the "
            "end of the previous one.",
            show_default=False,
        ),
    ] = None,
    align: Annotated[
        str,
        typer.Option(
            help="Shift the starts of windows, which are multiples of --hop since 1970 UTC."
        ),
    ] = "0s",
    session: Annotated[
        str | None,
        typer.Option(
            help="Session windows, instead of --window: a window ends after a gap of this length.",
            show_default=False,
        ),
    ] = None,
    lateness: Lateness = "0s",
    late: Late = None,
    time: TimeColumn = None,
    src: Annotated[str, typer.Option(help="Column of senders (or of one end of an edge).")] = "src",
    dst: Annotated[str, typer.Option(help="Column of receivers (or of the other end).")] = "dst",
    weight: Annotated[
        str | None,
        typer.Option(
            help="Column to sum for edge weights, or count for the number of events. Default: "
            "edges have no weight.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Column names of files without a header line, such as src,dst,t.",
            show_default=False,
        ),
    ] = None,
    time_unit: Unit = "s",
    zone: Zone = "UTC",
    ids: Ids = "auto",
    least_nodes: Annotated[
        int, typer.Option(min=2, help="Skip (and count) windows with fewer nodes.")
    ] = 2,
    sort: Sort = False,
    until: Until = "forever",
    quiet_after: QuietAfter = None,
    graph: GraphName = "events",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send one graph per time window from timed pairs: mails, calls, payments.

    Windows are cut by event time, not by arrival time. A window is sent when an event arrives that
    is --lateness past its end; later events are counted and written to --late-rows. Run the
    command again to continue after the last window in the topic.

    Mails in windows of three days, from SNAP's file:

      stream-icd produce events CollegeMsg.txt.gz --columns src,dst,t --window 3d

    Payments as they happen: the last hour, every five minutes:

      stream-icd produce events --topic payments --hop 5m --lateness 30s
    """
    from urllib.parse import quote

    from stream_icd.programs import ProducerRun, SendOptions, run_producer
    from stream_icd.programs.windowed import RowOptions, open_rows, windowed_source
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.events import EventSettings, event_snapshots
    from stream_icd.sources.source import Source
    from stream_icd.sources.tables.timed_rows import Columns
    from stream_icd.sources.windows import Hopping, Rule, Session

    weights = {} if weight in (None, "count") else {"weight": (weight, lambda given: given > 0)}
    options = RowOptions(path, topic, columns, until, quiet_after, sort)
    wanted = Columns(
        options.time_column(time), {"src": src, "dst": dst}, weights, time_unit, zone, ids
    )
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

    def open_source(run: ProducerRun) -> Source:
        rows = open_rows(options, wanted, run, graph, size + settings.lateness)
        late_rows = late or Path(f"{graph}.late.jsonl")
        return windowed_source(event_snapshots, settings, rows, run, late_rows)

    run_producer(
        open_source,
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
