"""`stream-icd evaluate`: methods side by side on your own archive."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Compare methods on archived windows.")


@app.command()
def evaluate(
    history: Annotated[
        str, typer.Option(help="The archive: a folder, or a URI such as s3://bucket/history.")
    ],
    methods: Annotated[
        str,
        typer.Option(
            help="Names, separated by commas: of bp, bp-memory, icd, leiden, plm and plp."
        ),
    ] = "bp,bp-memory,icd,leiden,plm,plp",
    graph: Annotated[
        str | None,
        typer.Option(
            help="Graph to use. Default: the only one in the archive.", show_default=False
        ),
    ] = None,
    windows: Annotated[int, typer.Option(min=1, help="Newest windows to evaluate.")] = 50,
    learn: Annotated[
        int,
        typer.Option(
            min=0, help="Windows just before them that bp and bp-memory learn from, at most."
        ),
    ] = 10,
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("evaluation.html"),
    csv: Annotated[
        Path | None,
        typer.Option(help="CSV file to write: a row for each method and window."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="File for the picture alone: .png, .svg or .pdf.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="Limit of processor time, for each method and window.")
    ] = 600,
    memory_gb: Annotated[float, typer.Option(help="Limit of memory, for each method.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
) -> None:
    """Compare methods on the newest windows of an archive, with or without known communities.

    For each method: evidence (how well its communities predict hidden edges), modularity, NCut,
    stability from window to window, NMI where communities are known, and processor time. The page
    is written after each window, so you can watch it in a browser. bp and icd are ours, and
    bp-memory is bp with memory from window to window; leiden, plm (Louvain) and plp (label
    propagation) need the extra `evaluate`. A method that is not installed, fails or exceeds a limit
    is named in the table.

      stream-icd evaluate --history history/ --methods bp,leiden --windows 50
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.table import Table

    from stream_icd.cli.wide_console import wide_console
    from stream_icd.evaluation.discover import OWN, chosen, methods_in
    from stream_icd.evaluation.evaluate import Result, open_windows, summarised
    from stream_icd.evaluation.evaluate import evaluate as results_of
    from stream_icd.evaluation.limits import Limits
    from stream_icd.evaluation.page import COLUMNS, cells, write_page
    from stream_icd.evaluation.picture import check_format, write_picture
    from stream_icd.evaluation.rows import write_rows
    from stream_icd.printable import printable, say
    from stream_icd.store.store import open_store

    if picture is not None:
        check_format(picture)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    names = list(chosen(names, methods_in(OWN)))
    limits = Limits(seconds, int(memory_gb * 1e9))
    found = open_windows(open_store(history), graph, windows, learn, datetime.now(UTC))
    console, results = wide_console(), list[Result]()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("windows x methods", total=len(found) * len(names))
        for result in results_of(found, names, limits, seed):
            results.append(result)
            progress.advance(task)
            if len(results) % len(names) == 0:
                write_page(out, found.graph, results, len(found))

    table = Table("method", *(name for name, _, _ in COLUMNS), "windows", "", box=None)
    for one in summarised(results):
        table.add_row(one.method, *cells(one), str(one.windows), printable(one.detail))
    console.print(table)
    if csv is not None:
        write_rows(csv, results)
    if picture is not None:
        write_picture(picture, results)
    for path in filter(None, (out, csv, picture)):
        say(f"written: {path}")
