"""`stream-icd produce as`: the Internet's topology, a snapshot a day."""

from datetime import date
from pathlib import Path

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.commands.programs.options import ReadingProducer, WindowOption, checked_graph
from stream_icd.core.errors import BadSettings

app = typer.Typer()


@command(app, "as")
class AsTopology(ReadingProducer):
    """Send Internet topologies: which autonomous systems exchange traffic.

    One snapshot for each date or time in the file names: daily, monthly or hourly, as the files
    are. The content tells the format: tab-separated pairs (SNAP as-733 and as-caida), CAIDA's
    relationships (as-rel: 701|1239|-1), or routing tables as text (bgpdump -m), whose neighbours
    on AS paths are linked. Parquet needs the columns window_start (date or time), src and dst.
    With --window, all files of a window become one snapshot.

      stream-icd produce as as-733.tar.gz --from 1999-01-01 --rate 2

    A routing table from RIPE or Route Views:

      bgpdump -m rib.20080101.0000.bz2 > rib.20080101.0000.txt
      stream-icd produce as rib.20080101.0000.txt --graph routes
    """

    path: Path = argument(
        "as-733.tar.gz, a folder of dated files, one such file (also compressed), or Parquet."
    )
    first: str | None = option(None, "First day, YYYY-MM-DD.", "--from")
    last: str | None = option(None, "Last day, included.", "--to")
    window: WindowOption = None
    source: str = option("urn:stream_icd:as", "Source URI (ce_source).")
    graph: str | None = option(
        None,
        "Name of the graph, the key of its messages. Default: the name of the file or folder.",
        callback=checked_graph,
    )

    def open(self, run: "programs.ProducerRun") -> "programs.Source":
        from stream_icd.core.times import parse_window
        from stream_icd.sources.datasets.as_topology import read_as_topology

        return read_as_topology(
            self.path,
            first=_day("--from", self.first),
            last=_day("--to", self.last),
            window=None if self.window is None else parse_window(self.window),
            graph=self.graph,
            source=self.source,
            on_bad_row=run.bad_rows,
        )


def _day(option: str, text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise BadSettings(f"{option} {text!r}: give a day as YYYY-MM-DD") from error
