"""`stream-icd produce taxi`: a fleet's positions, as graphs of who is close to whom."""

from dataclasses import replace

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import command, option
from stream_icd.commands.programs.options import GraphName, ReadingProducer, RowOptions

app = typer.Typer()


@command(app, "taxi")
class Taxi(RowOptions, ReadingProducer):
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

    tick: str = option("5m", "Snapshot interval.")
    stale: str | None = option(None, "Ignore positions older than this. Default: --tick.")
    nearest: int | None = option(
        None, "Link a taxi with this number of nearest taxis. Default: 50, with --radius 0.", min=0
    )
    radius: float = option(0.0, "Link taxis within this distance, metres.", min=0)
    sample: int | None = option(None, "Use a random sample of this number of active taxis.", min=2)
    seed: int = option(0, "Random seed of the sample.", min=0, max=2**64 - 1)
    coordinates: bool = option(
        True,
        "Put the position of each taxi into the snapshot, for the map of stream-icd view.",
        "--coordinates/--no-coordinates",
    )
    t_drive: bool = option(
        False, "T-Drive's format: a file per taxi, lines of id,datetime,lon,lat, Beijing time."
    )
    taxi: str = option("taxi", "Column of taxi ids.")
    lat: str = option("lat", "Latitude column, degrees.")
    lon: str = option("lon", "Longitude column, degrees.")
    graph: GraphName = "taxi"

    def open(self, run: "programs.ProducerRun") -> "programs.Source":
        from stream_icd.commands.programs.windowed import windowed_source
        from stream_icd.core.times import parse_duration
        from stream_icd.sources.datasets.taxi import TaxiSettings

        rows: RowOptions = self
        if self.t_drive:
            header = f"{self.taxi},{self.time or 't'},{self.lon},{self.lat}"
            rows = replace(self, columns=header, zone="Asia/Shanghai", sort=True)
        settings = TaxiSettings(
            tick=parse_duration(self.tick),
            stale=parse_duration(self.tick if self.stale is None else self.stale),
            nearest=self.nearest if self.nearest is not None else 0 if self.radius else 50,
            radius_m=self.radius,
            sample=self.sample,
            seed=self.seed,
            lateness=parse_duration(self.lateness),
            graph=self.graph,
            coordinates=self.coordinates,
        )
        reach = settings.stale + settings.lateness
        ids, numbers = {"taxi": self.taxi}, TaxiSettings.degrees(self.lat, self.lon)
        return windowed_source(rows, settings, ids, numbers, run, reach)
