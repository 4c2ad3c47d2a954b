"""`stream-icd produce taxi`: a fleet's positions, as graphs of who is close to whom."""

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


@app.command("taxi")
def main(
    path: Annotated[
        Path | None,
        typer.Argument(help="CSV, JSON lines or Parquet, also .gz; or a folder of such files."),
    ] = None,
    topic: Topic = None,
    tick: Annotated[str, typer.Option(help="A snapshot so often.")] = "5m",
    stale: Annotated[
        str | None,
        typer.Option(
            help="Where a taxi was longer ago does not count; by default as --tick.",
            show_default=False,
        ),
    ] = None,
    nearest: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Join two taxis where either is among the other's so many nearest; by default "
            "50, or none with --radius.",
            show_default=False,
        ),
    ] = None,
    radius: Annotated[
        float, typer.Option(min=0, help="Join two taxis at most so many metres apart.")
    ] = 0.0,
    sample: Annotated[
        int | None,
        typer.Option(min=2, help="Only so many random taxis of those active.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample.")] = 0,
    lateness: Lateness = "0s",
    late: Late = None,
    t_drive: Annotated[
        bool,
        typer.Option(
            "--t-drive",
            help="T-Drive's own form: id.txt of id,datetime,lon,lat, a file a taxi, Beijing time.",
        ),
    ] = False,
    time: Annotated[str, typer.Option(help="Column of the times.")] = "t",
    taxi: Annotated[str, typer.Option(help="Column of the taxis' ids.")] = "taxi",
    lat: Annotated[str, typer.Option(help="Column of the latitudes, degrees.")] = "lat",
    lon: Annotated[str, typer.Option(help="Column of the longitudes, degrees.")] = "lon",
    columns: Annotated[
        str | None,
        typer.Option(
            help="Names of a file's columns, such as taxi,t,lon,lat, if its first line is a row.",
            show_default=False,
        ),
    ] = None,
    time_unit: Unit = "s",
    zone: Zone = "UTC",
    ids: Ids = "auto",
    sort: Sort = False,
    until: Until = "forever",
    quiet_after: QuietAfter = None,
    graph: GraphName = "taxi",
    rate: Rate = None,
    limit: Limit = None,
    strict: Strict = False,
    again: Again = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send, at each tick, the graph of which taxis of a fleet are close to each other.

    A taxi is where its last fix saw it, if that is not --stale. Distances are those on the Earth's
    surface. Ticks lie in the time of the fixes, not of reading them; one is sent when a fix has
    come that is --lateness past it, and fixes that come later are counted and kept (--late-rows).
    Run it again, and it goes on after the last tick that the topic holds.

    Microsoft's T-Drive sample, a folder of 10,357 files, every ten minutes:

      stream-icd produce taxi taxi_log_2008_by_id --t-drive --tick 10m

    Positions as they come, who is within 300 metres, twice a minute:

      stream-icd produce taxi --topic fixes --radius 300 --tick 30s --stale 2m --lateness 5s
    """
    from stream_icd.cli.open_rows import RowOptions, open_rows
    from stream_icd.cli.run_producer import Run, run_producer
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.late_rows import LateRows
    from stream_icd.sources.source import Source
    from stream_icd.sources.taxi import TaxiSettings, taxi_columns, taxi_snapshots

    if t_drive:
        columns, zone, sort = f"{taxi},{time},{lon},{lat}", "Asia/Shanghai", True
    wanted = taxi_columns(time, taxi, lat, lon, time_unit=time_unit, zone=zone, ids=ids)
    options = RowOptions(path, topic, columns, until, quiet_after, sort)
    settings = TaxiSettings(
        tick=parse_duration(tick),
        stale=parse_duration(stale or tick),
        nearest=nearest if nearest is not None else 0 if radius else 50,
        radius_m=radius,
        sample=sample,
        seed=seed,
        lateness=parse_duration(lateness),
        graph=graph,
    )

    def open_source(run: Run) -> Source:
        rows = open_rows(options, wanted, run, graph, settings.stale + settings.lateness)
        return taxi_snapshots(
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
