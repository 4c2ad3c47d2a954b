"""`stream-icd produce taxi`: a fleet's positions, as graphs of who is close to whom."""

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


@app.command("taxi")
def main(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, JSON lines or Parquet file (also .gz), or a folder of such files."
        ),
    ] = None,
    topic: Topic = None,
    tick: Annotated[str, typer.Option(help="Snapshot interval.")] = "5m",
    stale: Annotated[
        str | None,
        typer.Option(
            help="Ignore positions older than this. Default: --tick.",
            show_default=False,
        ),
    ] = None,
    nearest: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Link a taxi with this number of nearest taxis. Default: 50, with --radius 0.",
            show_default=False,
        ),
    ] = None,
    radius: Annotated[
        float, typer.Option(min=0, help="Link taxis within this distance, metres.")
    ] = 0.0,
    sample: Annotated[
        int | None,
        typer.Option(
            min=2, help="Use a random sample of this number of active taxis.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the sample.")] = 0,
    coordinates: Annotated[
        bool,
        typer.Option(
            "--coordinates/--no-coordinates",
            help="Put the position of each taxi into the snapshot, for the map of stream-icd view.",
        ),
    ] = True,
    lateness: Lateness = "0s",
    late: Late = None,
    t_drive: Annotated[
        bool,
        typer.Option(
            "--t-drive",
            help="T-Drive's format: a file per taxi, lines of id,datetime,lon,lat, Beijing time.",
        ),
    ] = False,
    time: TimeColumn = None,
    taxi: Annotated[str, typer.Option(help="Column of taxi ids.")] = "taxi",
    lat: Annotated[str, typer.Option(help="Latitude column, degrees.")] = "lat",
    lon: Annotated[str, typer.Option(help="Longitude column, degrees.")] = "lon",
    columns: Annotated[
        str | None,
        typer.Option(
            help="Column names of files without a header line, such as taxi,t,lon,lat.",
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
    correct: Correct = False,
    partition_by: PartitionBy = "graph",
    bootstrap_servers: BootstrapServers = None,
) -> None:
    """Send, at each tick, the graph of which taxis are close to each other.

    A taxi is at its last reported position (fix) unless that is --stale. Distances are great-circle
    distances. Ticks follow the times of the fixes, not of reading them: a tick is sent when a fix
    arrives that is --lateness past it; later fixes are counted and written to --late-rows. Run the
    command again to continue after the last tick in the topic.

    Microsoft's T-Drive sample, a folder of 10,357 files, every ten minutes:

      stream-icd produce taxi taxi_log_2008_by_id --t-drive --tick 10m

    Live positions, taxis within 300 metres, twice a minute:

      stream-icd produce taxi --topic fixes --radius 300 --tick 30s --stale 2m
    """
    from stream_icd.datasets.taxi import TaxiSettings, taxi_columns, taxi_snapshots
    from stream_icd.programs import ProducerRun, SendOptions, run_producer
    from stream_icd.programs.windowed import RowOptions, open_rows, windowed_source
    from stream_icd.sources.durations import parse_duration
    from stream_icd.sources.source import Source

    if t_drive:
        columns, zone, sort = f"{taxi},{time or 't'},{lon},{lat}", "Asia/Shanghai", True
    options = RowOptions(path, topic, columns, until, quiet_after, sort)
    time = options.time_column(time)
    wanted = taxi_columns(time, taxi, lat, lon, time_unit=time_unit, zone=zone, ids=ids)
    settings = TaxiSettings(
        tick=parse_duration(tick),
        stale=parse_duration(stale or tick),
        nearest=nearest if nearest is not None else 0 if radius else 50,
        radius_m=radius,
        sample=sample,
        seed=seed,
        lateness=parse_duration(lateness),
        graph=graph,
        coordinates=coordinates,
    )

    def open_source(run: ProducerRun) -> Source:
        rows = open_rows(options, wanted, run, graph, settings.stale + settings.lateness)
        late_rows = late or Path(f"{graph}.late.jsonl")
        return windowed_source(taxi_snapshots, settings, rows, run, late_rows)

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
