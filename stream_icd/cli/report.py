"""`stream-icd report`: what the page shows, as a file to keep."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.declared import command
from stream_icd.programs.options import NamesFile
from stream_icd.programs.past import First, Last, parse_time

if TYPE_CHECKING:
    from stream_icd.view.data.series import SeriesName
    from stream_icd.view.panels.queries import Queries

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class OneGraph:
    """The options for one graph of an archive."""

    history: Annotated[
        str, typer.Option(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ]
    graph: Annotated[
        str | None, typer.Option(help="The graph. Default: the only one in the archive.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ArchivedGraph(OneGraph):
    """The options for what can be asked of a graph."""

    model: Annotated[
        str | None,
        typer.Option(
            help="Only results of this model, such as gn or gn@2. Default: of all models, one "
            "after the other."
        ),
    ] = None
    names: NamesFile = None

    def read(
        self, start: datetime | None = None, end: datetime | None = None
    ) -> "tuple[Queries, SeriesName]":
        """Return what can be asked of the graph, and its name; see `read_archive`."""
        from stream_icd.programs.names import naming_by
        from stream_icd.programs.options import kafka_settings
        from stream_icd.store.store import open_store
        from stream_icd.view.report import read_archive

        store = open_store(self.history)
        with naming_by(self.names, lambda: kafka_settings(None), self.graph) as naming:
            return read_archive(store, self.graph, self.model, start, end, naming)


@command(app, "report")
class Report(ArchivedGraph):
    """Write the communities of an archived graph to one file that opens anywhere.

    The file holds the flow of communities, the map of the last window, numbers over time, events,
    and the past of every node. It needs no server and no network.

      stream-icd report --history history/ --graph as733 --out report.html

      stream-icd report --history history/ --names countries.csv

      stream-icd report --history history/ --graph as733 --format svg --out svg/
    """

    out: Annotated[
        Path,
        typer.Option(help="File to write; with --format png or svg, the folder for the pictures."),
    ] = Path("report.html")
    first: First = None
    last: Last = None
    form: Annotated[
        Literal["html", "png", "svg"],
        typer.Option(
            "--format",
            help="html: the page as one file, which opens without a network; png, svg: the "
            "pictures flow, map and life.",
        ),
    ] = "html"

    def run(self) -> None:
        from stream_icd.printable import say
        from stream_icd.view.report import left_out, write_html, write_pictures

        queries, name = self.read(parse_time("--from", self.first), parse_time("--to", self.last))
        naming = queries.seen.naming
        if naming is not None and naming.trouble:
            raise BadSettings(f"{self.names}: {naming.trouble}")
        if self.form == "html":
            written = [write_html(queries, name, self.out)]
        else:
            written = write_pictures(queries, name, self.out, self.form)
        for path in written:
            say(f"written: {path}")
        for sentence in left_out(queries, name):
            say(sentence)
