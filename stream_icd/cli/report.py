"""`stream-icd report`: what the page shows, as a file to keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stream_icd.errors import BadSettings
from stream_icd.programs.options import NamesFile
from stream_icd.programs.past import First, Last, parse_time

app = typer.Typer(help="Write what the live page shows to files.")


@app.command()
def report(
    history: Annotated[
        str, typer.Option(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    out: Annotated[
        Path,
        typer.Option(help="File to write; with --format png or svg, the folder for the pictures."),
    ] = Path("report.html"),
    graph: Annotated[
        str | None,
        typer.Option(
            help="Graph to show. Default: the only one in the archive.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Show results of this model only, such as gn or gn@2. Default: of all models, one "
            "after the other.",
            show_default=False,
        ),
    ] = None,
    names: NamesFile = None,
    first: First = None,
    last: Last = None,
    form: Annotated[
        Literal["html", "png", "svg"],
        typer.Option(
            "--format",
            help="html: the page as one file, which opens without a network; png, svg: the "
            "pictures flow, map and life.",
        ),
    ] = "html",
) -> None:
    """Write the communities of an archived graph to one file that opens anywhere.

    The file holds the flow of communities, the map of the last window, numbers over time, events,
    and the past of every node. It needs no server and no network.

      stream-icd report --history history/ --graph as733 --out report.html

      stream-icd report --history history/ --names countries.csv

      stream-icd report --history history/ --graph as733 --format svg --out svg/
    """
    from stream_icd.printable import say
    from stream_icd.store.store import open_store
    from stream_icd.view.feeds.naming import naming_by
    from stream_icd.view.report.report import left_out, read_archive, write_html, write_pictures

    span = parse_time("--from", first), parse_time("--to", last)
    naming = naming_by(names)
    queries, name = read_archive(open_store(history), graph, model, *span, naming)
    if naming is not None and naming.trouble:
        raise BadSettings(f"{names}: {naming.trouble}")
    if form == "html":
        written = [write_html(queries, name, out)]
    else:
        written = write_pictures(queries, name, out, form)
    for path in written:
        say(f"written: {path}")
    for sentence in left_out(queries, name):
        say(sentence)
