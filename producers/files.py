"""`stream-icd produce files`: a folder into which somebody puts edge lists."""

from dataclasses import replace
from pathlib import Path

import typer

from stream_icd import programs
from stream_icd.commands.programs.declared import argument, command, option
from stream_icd.commands.programs.options import GraphName, IdsOption, ReadingProducer, WindowOption

app = typer.Typer()


@command(app, "files")
class Files(ReadingProducer):
    """Send the edge lists in a folder: one snapshot per file, in order of their windows.

    CSV, TSV and text files have the columns src, dst and optionally weight (without such a header,
    the first two columns are used). Parquet and Arrow files have the same columns. GraphML, Matrix
    Market, METIS and Pajek are read too. Each of these may be compressed (.gz, .bz2, .xz, .zst,
    .lz4, .zip). A row without dst declares an isolated node. Pickles are refused: opening one runs
    any program that it holds.

    A window starts at the date or time in the file name (2026-01-31, 20260131T1200) and lasts until
    the next file; without one, it is the time of the file's last change.

      stream-icd produce files graphs/ --graph friends
      stream-icd produce files /var/spool/graphs --watch --every 10s
    """

    path: Path = argument("Folder of edge lists: CSV, Parquet, Arrow, GraphML, …", metavar="FOLDER")
    watch: bool = option(False, "Keep running and send new and changed files.")
    every: str = option("2s", "Polling interval; files that still grow are read later.")
    window: WindowOption = None
    ids: IdsOption = "auto"
    graph: GraphName = "files"

    def open(self, run: "programs.ProducerRun") -> "programs.Source":
        from functools import partial

        from stream_icd.core.times import parse_wait, parse_window
        from stream_icd.sources.edge_files import watch_edge_files
        from stream_icd.wire.limits import Limits

        every_s = parse_wait("--every", self.every)
        return watch_edge_files(
            self.path,
            graph=self.graph,
            id_kind=self.ids,
            kind_before=partial(run.kind_before, self.graph),
            every_s=every_s if self.watch else None,
            window=None if self.window is None else parse_window(self.window),
            limits=Limits(),
            on_bad_row=run.bad_rows,
            count=run.count,
            stop=run.stop,
        )

    def run(self) -> None:
        programs.run_producer(self.open, replace(self, correct=self.correct or self.watch))
