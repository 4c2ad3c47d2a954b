"""`stream-icd history`: inspect, export and compact the archive."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stream_icd.commands.programs.declared import argument, command, option, path
from stream_icd.commands.programs.options import ArchiveUri, OnlyGraph, PastOptions, parse_time
from stream_icd.core.errors import BadSettings
from stream_icd.core.printable import printable, say

if TYPE_CHECKING:
    from rich.table import Table

    from stream_icd.core.store.store import Store
    from stream_icd.history.archive import Selection
    from stream_icd.history.files import ArchivedWindow

app = typer.Typer(no_args_is_help=True, help="Inspect, export and compact the archive.")

_Kind = Literal["snapshots", "labels", "communities", "events"]


@command(app, "list")
class _ListWindows(PastOptions):
    """List what is archived: graphs, times, windows, rows, files, size.

    stream-icd history list history/

    stream-icd history list history/ --windows --graph as733 --from 1999-04-01
    """

    uri: ArchiveUri
    kind: Literal[_Kind, "memory"] | None = option(None, "Only this kind.")
    windows: bool = option(False, "Print one line per window instead of one per graph.")

    def run(self) -> None:
        from stream_icd.commands.programs.process import wide_console
        from stream_icd.core.store.store import open_store
        from stream_icd.history.archive import Archive
        from stream_icd.history.files import FILE_KINDS

        store = open_store(self.uri)
        chosen = [self.selection(kind) for kind in FILE_KINDS if self.kind in (None, kind)]
        Archive(store).refuse_nothing(chosen)
        if not self.windows:
            wide_console().print(_graphs_table(store, chosen))
            return
        for selection in chosen:
            say(*_windows_lines(store, selection))


@command(app, "show")
class _Show:
    """Show the archived messages of one snapshot, with their headers.

    stream-icd history show history/ as733/1999-04-02
    """

    uri: ArchiveUri
    snapshot: str = argument("Snapshot id, such as as733/1999-04-02.")
    graph: OnlyGraph = None

    def run(self) -> None:
        from stream_icd.history.archive import Archive, Selection, newest
        from stream_icd.history.files import FILE_KINDS

        store, n_messages = _opened(self.uri, self.graph), 0
        for kind in FILE_KINDS:
            chosen = Archive(store).windows(Selection(kind, self.graph, revisions="all"))
            revisions = [noted for noted in chosen if noted.identity.snapshot_id == self.snapshot]
            for noted in revisions:
                say(*_message_lines(noted, is_newest=noted in newest(revisions)))
            n_messages += len(revisions)
        if not n_messages:
            say(f"{store.place} holds no snapshot {self.snapshot}", err=True)
            raise typer.Exit(1)


@command(app, "export")
class _Export(PastOptions):
    """Write archived rows to one file: edges of snapshots, communities of nodes, or events.

    stream-icd history export history/ --kind communities --out result.csv

    stream-icd history export history/ --graph as733 --out as733.parquet

    Or one graph, with its communities: .gexf for Gephi's time line, .graphml its newest window.

    stream-icd history export history/ --graph as733 --from 1999-04 --out as.gexf
    """

    uri: ArchiveUri
    out: Annotated[
        Path,
        typer.Option(
            parser=path,
            help="File to write; its extension sets the format: .parquet, .csv or .arrow for rows, "
            ".gexf or .graphml for a graph.",
        ),
    ]
    kind: _Kind = option("snapshots", "Kind of messages.")
    model: str | None = option(
        None, "Only communities or events of this model version, such as as@b4b47a3e."
    )
    revisions: Literal["newest", "all"] = option(
        "newest", "Corrected windows: export the newest revision only, or all."
    )

    def run(self) -> None:
        from stream_icd.core.store.store import open_store
        from stream_icd.history.export import GRAPH_WRITERS, export

        if self.out.suffix in GRAPH_WRITERS:
            chosen = replace(self.selection("snapshots"), model=self.model)
            n_nodes = export(open_store(self.uri), chosen, self.out)
            say(f"{n_nodes:,} nodes to {self.out}")
            return
        if self.model is not None and self.kind not in ("communities", "events"):
            raise BadSettings("--model is for results: give --kind communities or events, too")
        chosen = self.selection(self.kind)
        chosen = replace(chosen, model=self.model, revisions=self.revisions)
        n_rows = export(open_store(self.uri), chosen, self.out)
        say(f"{n_rows:,} rows to {self.out}")


@command(app, "compact")
class _Compact:
    """Merge the small files of past days; safe to interrupt and to repeat.

    stream-icd history compact history/ --dry-run
    """

    uri: ArchiveUri
    graph: OnlyGraph = None
    before: str | None = option(None, "Merge files of days before this one. Default: today, UTC.")
    dry_run: bool = option(False, "Print what would be merged, and change nothing.")

    def run(self) -> None:
        from stream_icd.history.compaction import compact_archive as merge

        store = _opened(self.uri, self.graph)
        today = datetime.now(UTC).date()
        time = parse_time("--before", self.before)
        before = today if time is None else time.date()
        days = files = 0
        for done in merge(store, before, graph=self.graph, dry_run=self.dry_run, today=today):
            files_now = f"{done.files_before} files -> {done.files_after}"
            say(f"{done.partition.folder}: {done.windows} windows, {files_now}")
            days, files = days + 1, files + done.files_before - done.files_after
        would = "would be" if self.dry_run else "were"
        say(f"{days} days {would} merged, {files} files {would} saved")


def _opened(uri: str, graph: str | None) -> Store:
    from stream_icd.core.store.store import open_store
    from stream_icd.history.archive import Archive, Selection
    from stream_icd.history.files import FILE_KINDS

    store = open_store(uri)
    Archive(store).refuse_nothing([Selection(kind, graph) for kind in FILE_KINDS])
    return store


def _graphs_table(store: Store, selections: Iterable[Selection]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from stream_icd.history.archive import Archive, newest
    from stream_icd.methods.memory.memory import BEFORE_ALL

    table = Table("kind", "graph", "model", "first window", "last window", box=None)
    for name in ("windows", "revisions", "rows", "files", "MB"):
        table.add_column(name, justify="right")
    for selection in selections:
        grouped: dict[tuple[str, str], list[ArchivedWindow]] = defaultdict(list)
        for noted in Archive(store).windows(replace(selection, revisions="all")):
            grouped[noted.partition.graph, noted.identity.model].append(noted)
        for (graph, model), revisions in sorted(grouped.items()):
            files = {noted.path for noted in revisions}
            begins = [window.window.start for window in revisions if window.window != BEFORE_ALL]
            begins = begins or [BEFORE_ALL.start]
            table.add_row(
                selection.kind,
                Text(printable(graph)),
                Text(printable(model)),
                *(f"{begin:%Y-%m-%d %H:%M}" for begin in (begins[0], begins[-1])),
                f"{len(newest(revisions)):,}",
                f"{len(revisions):,}",
                f"{sum(noted.rows for noted in revisions):,}",
                f"{len(files):,}",
                f"{sum(map(store.size, files)) / 1e6:,.1f}",
            )
    return table


def _windows_lines(store: Store, selection: Selection) -> Iterator[str]:
    """Kind, beginning, end, rows, graph, snapshot, model, revision, state of each revision."""
    from stream_icd.history.archive import Archive, newest

    revisions = list(Archive(store).windows(replace(selection, revisions="all")))
    replaced = {id(noted) for noted in revisions} - {id(noted) for noted in newest(revisions)}
    for noted in revisions:
        times = (time.isoformat() for time in (noted.window.start, noted.window.end))
        names = map(printable, (noted.partition.graph, *astuple(noted.identity)))
        state = "superseded" if id(noted) in replaced else "newest"
        yield "\t".join((selection.kind, *times, str(noted.rows), *names, state))


def _message_lines(noted: ArchivedWindow, *, is_newest: bool) -> list[str]:
    """A JSON object: where a message is kept, how many rows it has, and its headers."""
    document = {
        "kind": noted.partition.kind,
        "graph": noted.partition.graph,
        "revision": noted.identity.revision,
        "newest": is_newest,
        "file": noted.path,
        "row_group": noted.row_group,
        "rows": noted.rows,
        "columns": noted.columns,
        "headers": {name: value.decode(errors="replace") for name, value in noted.headers},
    }
    return json.dumps(document, indent=2).split("\n")
