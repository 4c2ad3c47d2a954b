"""`stream-icd history`: inspect, export and compact the archive."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.printable import say
from stream_icd.programs.past import First, Graph, Last, parse_time

if TYPE_CHECKING:
    from stream_icd.history.archive import Selection
    from stream_icd.history.layout import Kind

app = typer.Typer(no_args_is_help=True, help="Inspect, export and compact the archive.")


class OneKind(StrEnum):
    """What is archived."""

    SNAPSHOTS = "snapshots"
    LABELS = "labels"
    COMMUNITIES = "communities"


Uri = Annotated[
    str, typer.Argument(help="The archive: a folder, or a URI such as s3://bucket/history.")
]
WhichKind = Annotated[OneKind, typer.Option("--kind", help="Kind of messages.")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Only communities of this model version, such as as@8168f91e.", show_default=False
    ),
]


@app.command("list")
def list_(
    uri: Uri,
    kind: Annotated[
        OneKind | None, typer.Option(help="Only this kind.", show_default=False)
    ] = None,
    graph: Graph = None,
    first: First = None,
    last: Last = None,
    windows: Annotated[
        bool, typer.Option("--windows", help="Print one line per window instead of one per graph.")
    ] = False,
) -> None:
    """List what is archived: graphs, times, windows, rows, files, size.

    stream-icd history list history/

    stream-icd history list history/ --windows --graph as733 --from 1999-04-01
    """
    from stream_icd.cli.history.tables import graphs_table, windows_lines
    from stream_icd.history.layout import KINDS
    from stream_icd.history.nothing import refuse_nothing
    from stream_icd.store.store import open_store

    store = open_store(uri)
    chosen = [_selection(one, graph, None, first, last) for one in KINDS if kind in (None, one)]
    refuse_nothing(store, chosen)
    if windows:
        for selection in chosen:
            for line in windows_lines(store, selection):
                say(line)
        return
    from stream_icd.cli.wide_console import wide_console

    wide_console().print(graphs_table(store, chosen))


@app.command()
def show(
    uri: Uri,
    snapshot: Annotated[str, typer.Argument(help="Snapshot id, such as as733/1999-04-02.")],
    graph: Graph = None,
) -> None:
    """Show the archived messages of one snapshot, with their headers.

    stream-icd history show history/ as733/1999-04-02
    """
    from stream_icd.cli.history.tables import shown
    from stream_icd.history.archive import Selection, newest, windows
    from stream_icd.history.layout import KINDS
    from stream_icd.history.nothing import refuse_nothing
    from stream_icd.store.store import open_store

    store, found = open_store(uri), 0
    refuse_nothing(store, [Selection(kind, graph) for kind in KINDS])
    for kind in KINDS:
        chosen = windows(store, Selection(kind, graph, revisions="all"))
        revisions = [noted for noted in chosen if noted.identity.snapshot_id == snapshot]
        for noted in revisions:
            say(*shown(noted, is_newest=noted in newest(revisions)).split("\n"))
        found += len(revisions)
    if not found:
        say(f"{store.place} holds no snapshot {snapshot}", err=True)
        raise typer.Exit(1)


@app.command()
def export(
    uri: Uri,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write; its extension sets the format: .parquet, .csv or .arrow."
        ),
    ],
    kind: WhichKind = OneKind.SNAPSHOTS,
    graph: Graph = None,
    model: Model = None,
    first: First = None,
    last: Last = None,
    revisions: Annotated[
        Literal["newest", "all"],
        typer.Option(help="Corrected windows: export the newest revision only, or all."),
    ] = "newest",
) -> None:
    """Write archived rows to one file: edges of snapshots, or communities of nodes.

    stream-icd history export history/ --kind communities --out result.csv

    stream-icd history export history/ --graph as733 --out as733.parquet
    """
    from dataclasses import replace

    from stream_icd.history import export as exporting
    from stream_icd.store.store import open_store

    selection = replace(_selection(kind.value, graph, model, first, last), revisions=revisions)
    exporting.format_of(out)
    n_rows = exporting.export(open_store(uri), selection, out)
    say(f"{n_rows:,} rows to {out}")


@app.command()
def compact(
    uri: Uri,
    graph: Graph = None,
    before: Annotated[
        str | None,
        typer.Option(help="Merge files of days before this one. Default: today, UTC."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be merged, and change nothing.")
    ] = False,
) -> None:
    """Merge the small files of past days; safe to interrupt and to repeat.

    stream-icd history compact history/ --dry-run
    """
    from datetime import UTC, datetime

    from stream_icd.history.archive import Selection
    from stream_icd.history.compact import compact as merge
    from stream_icd.history.layout import KINDS
    from stream_icd.history.nothing import refuse_nothing
    from stream_icd.store.store import open_store

    store = open_store(uri)
    refuse_nothing(store, [Selection(kind, graph) for kind in KINDS])
    end = parse_time("--before", before) or datetime.now(UTC)
    days = files = 0
    for done in merge(store, end.date(), graph=graph, dry_run=dry_run):
        say(
            f"{done.partition.folder}: {done.windows} windows, "
            f"{done.files_before} files -> {done.files_after}"
        )
        days, files = days + 1, files + done.files_before - done.files_after
    would = "would be" if dry_run else "were"
    say(f"{days} days {would} merged, {files} files {would} saved")


def _selection(
    kind: Kind, graph: str | None, model: str | None, first: str | None, last: str | None
) -> Selection:
    from stream_icd.history.archive import Selection

    return Selection(kind, graph, model, parse_time("--from", first), parse_time("--to", last))
