"""`stream-icd history`: inspect, export and compact the archive."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.printable import say
from stream_icd.programs.declared import argument, command, option
from stream_icd.programs.options import OnlyGraph
from stream_icd.programs.past import ArchiveUri, PastOptions, parse_time

if TYPE_CHECKING:
    from stream_icd.store.store import Store

app = typer.Typer(no_args_is_help=True, help="Inspect, export and compact the archive.")

Kind = Literal["snapshots", "labels", "communities"]


@command(app, "list")
class ListWindows(PastOptions):
    """List what is archived: graphs, times, windows, rows, files, size.

    stream-icd history list history/

    stream-icd history list history/ --windows --graph as733 --from 1999-04-01
    """

    uri: ArchiveUri
    kind: Kind | None = option(None, "Only this kind.")
    windows: bool = option(False, "Print one line per window instead of one per graph.")

    def run(self) -> None:
        from stream_icd.cli.history.tables import graphs_table, windows_lines
        from stream_icd.history.archive import refuse_nothing
        from stream_icd.history.files import KINDS
        from stream_icd.programs.terminal import wide_console
        from stream_icd.store.store import open_store

        store = open_store(self.uri)
        chosen = [self.selection(one) for one in KINDS if self.kind in (None, one)]
        refuse_nothing(store, chosen)
        if not self.windows:
            wide_console().print(graphs_table(store, chosen))
            return
        for selection in chosen:
            say(*windows_lines(store, selection))


@command(app, "show")
class Show:
    """Show the archived messages of one snapshot, with their headers.

    stream-icd history show history/ as733/1999-04-02
    """

    uri: ArchiveUri
    snapshot: str = argument("Snapshot id, such as as733/1999-04-02.")
    graph: OnlyGraph = None

    def run(self) -> None:
        from stream_icd.cli.history.tables import shown
        from stream_icd.history.archive import Selection, newest, windows
        from stream_icd.history.files import KINDS

        store, found = _opened(self.uri, self.graph), 0
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
    kind: Kind = option("snapshots", "Kind of messages.")
    model: str | None = option(None, "Only communities of this model version, such as as@8168f91e.")
    revisions: Literal["newest", "all"] = option(
        "newest", "Corrected windows: export the newest revision only, or all."
    )

    def run(self) -> None:
        from stream_icd.history.export import export
        from stream_icd.store.store import open_store

        chosen = self.selection(self.kind)
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
    before: str | None = option(None, "Merge files of days before this one. Default: today, UTC.")
    dry_run: bool = option(False, "Print what would be merged, and change nothing.")

    def run(self) -> None:
        from stream_icd.history.compact import compact as merge

        store = _opened(self.uri, self.graph)
        end = parse_time("--before", self.before) or datetime.now(UTC)
        days = files = 0
        for done in merge(store, end.date(), graph=self.graph, dry_run=self.dry_run):
            files_now = f"{done.files_before} files -> {done.files_after}"
            say(f"{done.partition.folder}: {done.windows} windows, {files_now}")
            days, files = days + 1, files + done.files_before - done.files_after
        would = "would be" if self.dry_run else "were"
        say(f"{days} days {would} merged, {files} files {would} saved")


def _opened(uri: str, graph: str | None) -> "Store":
    """The archive, if it holds something of the graph."""
    from stream_icd.history.archive import Selection, refuse_nothing
    from stream_icd.history.files import KINDS
    from stream_icd.store.store import open_store

    store = open_store(uri)
    refuse_nothing(store, [Selection(kind, graph) for kind in KINDS])
    return store
