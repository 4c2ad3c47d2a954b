"""`stream-icd history`: inspect, export and compact the archive."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from stream_icd.printable import say
from stream_icd.programs.declared import command
from stream_icd.programs.options import OnlyGraph
from stream_icd.programs.past import ArchiveUri, PastOptions, parse_time

app = typer.Typer(no_args_is_help=True, help="Inspect, export and compact the archive.")


class OneKind(StrEnum):
    """What is archived."""

    SNAPSHOTS = "snapshots"
    LABELS = "labels"
    COMMUNITIES = "communities"


@command(app, "list")
class ListWindows(PastOptions):
    """List what is archived: graphs, times, windows, rows, files, size.

    stream-icd history list history/

    stream-icd history list history/ --windows --graph as733 --from 1999-04-01
    """

    uri: ArchiveUri
    kind: Annotated[OneKind | None, typer.Option(help="Only this kind.")] = None
    windows: Annotated[
        bool, typer.Option("--windows", help="Print one line per window instead of one per graph.")
    ] = False

    def run(self) -> None:
        from stream_icd.cli.history.tables import graphs_table, windows_lines
        from stream_icd.cli.wide_console import wide_console
        from stream_icd.history.archive import refuse_nothing
        from stream_icd.history.layout import KINDS
        from stream_icd.store.store import open_store

        store = open_store(self.uri)
        chosen = [self.selection(one) for one in KINDS if self.kind in (None, one)]
        refuse_nothing(store, chosen)
        if not self.windows:
            wide_console().print(graphs_table(store, chosen))
            return
        for selection in chosen:
            for line in windows_lines(store, selection):
                say(line)


@command(app, "show")
class Show:
    """Show the archived messages of one snapshot, with their headers.

    stream-icd history show history/ as733/1999-04-02
    """

    uri: ArchiveUri
    snapshot: Annotated[str, typer.Argument(help="Snapshot id, such as as733/1999-04-02.")]
    graph: OnlyGraph = None

    def run(self) -> None:
        from stream_icd.cli.history.tables import shown
        from stream_icd.history.archive import Selection, newest, refuse_nothing, windows
        from stream_icd.history.layout import KINDS
        from stream_icd.store.store import open_store

        store, found = open_store(self.uri), 0
        refuse_nothing(store, [Selection(kind, self.graph) for kind in KINDS])
        for kind in KINDS:
            chosen = windows(store, Selection(kind, self.graph, revisions="all"))
            revisions = [noted for noted in chosen if noted.identity.snapshot_id == self.snapshot]
            for noted in revisions:
                say(*shown(noted, is_newest=noted in newest(revisions)).split("\n"))
            found += len(revisions)
        if not found:
            say(f"{store.place} holds no snapshot {self.snapshot}", err=True)
            raise typer.Exit(1)


@command(app, "export")
class Export(PastOptions):
    """Write archived rows to one file: edges of snapshots, or communities of nodes.

    stream-icd history export history/ --kind communities --out result.csv

    stream-icd history export history/ --graph as733 --out as733.parquet
    """

    uri: ArchiveUri
    out: Annotated[
        Path,
        typer.Option(
            help="File to write; its extension sets the format: .parquet, .csv or .arrow."
        ),
    ]
    kind: Annotated[OneKind, typer.Option(help="Kind of messages.")] = OneKind.SNAPSHOTS
    model: Annotated[
        str | None,
        typer.Option(help="Only communities of this model version, such as as@8168f91e."),
    ] = None
    revisions: Annotated[
        Literal["newest", "all"],
        typer.Option(help="Corrected windows: export the newest revision only, or all."),
    ] = "newest"

    def run(self) -> None:
        from stream_icd.history.export import export
        from stream_icd.store.store import open_store

        chosen = self.selection(self.kind.value)
        chosen = replace(chosen, model=self.model, revisions=self.revisions)
        n_rows = export(open_store(self.uri), chosen, self.out)
        say(f"{n_rows:,} rows to {self.out}")


@command(app, "compact")
class Compact:
    """Merge the small files of past days; safe to interrupt and to repeat.

    stream-icd history compact history/ --dry-run
    """

    uri: ArchiveUri
    graph: OnlyGraph = None
    before: Annotated[
        str | None,
        typer.Option(help="Merge files of days before this one. Default: today, UTC."),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be merged, and change nothing.")
    ] = False

    def run(self) -> None:
        from datetime import UTC, datetime

        from stream_icd.history.archive import Selection, refuse_nothing
        from stream_icd.history.compact import compact as merge
        from stream_icd.history.layout import KINDS
        from stream_icd.store.store import open_store

        store = open_store(self.uri)
        refuse_nothing(store, [Selection(kind, self.graph) for kind in KINDS])
        end = parse_time("--before", self.before) or datetime.now(UTC)
        days = files = 0
        for done in merge(store, end.date(), graph=self.graph, dry_run=self.dry_run):
            say(
                f"{done.partition.folder}: {done.windows} windows, "
                f"{done.files_before} files -> {done.files_after}"
            )
            days, files = days + 1, files + done.files_before - done.files_after
        would = "would be" if self.dry_run else "were"
        say(f"{days} days {would} merged, {files} files {would} saved")
