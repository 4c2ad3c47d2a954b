"""How the archive is shown to people."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple

from rich.table import Table
from rich.text import Text

from stream_icd.history.archive import Selection, windows
from stream_icd.history.parquet import ArchivedWindow
from stream_icd.printable import printable
from stream_icd.store import Store


def graphs_table(store: Store, selections: Iterable[Selection]) -> Table:
    """A line for each kind, graph and model version."""
    table = Table("kind", "graph", "model", "first window", "last window", box=None)
    for name in ("windows", "rows", "files", "MB"):
        table.add_column(name, justify="right")
    for selection in selections:
        for (graph, model), found in sorted(_grouped(store, selection).items()):
            files = {noted.path for noted in found}
            table.add_row(
                selection.kind,
                Text(printable(graph)),
                Text(printable(model)),
                f"{found[0].window.start:%Y-%m-%d %H:%M}",
                f"{found[-1].window.start:%Y-%m-%d %H:%M}",
                f"{len(found):,}",
                f"{sum(noted.rows for noted in found):,}",
                f"{len(files):,}",
                f"{sum(map(store.size, files)) / 1e6:,.1f}",
            )
    return table


def windows_lines(store: Store, selection: Selection) -> Iterator[str]:
    """A line for each window: kind, beginning, end, rows, graph, snapshot, model."""
    for noted in windows(store, selection):
        yield "\t".join(
            (
                selection.kind,
                noted.window.start.isoformat(),
                noted.window.end.isoformat(),
                str(noted.rows),
                *map(printable, (noted.partition.graph, *astuple(noted.identity))),
            )
        )


def shown(noted: ArchivedWindow) -> str:
    """A JSON object: where a message is kept, how many rows it has, and its headers."""
    headers = {name: value.decode(errors="replace") for name, value in noted.headers}
    return json.dumps(
        {
            "kind": noted.partition.kind,
            "graph": noted.partition.graph,
            "file": noted.path,
            "row_group": noted.row_group,
            "rows": noted.rows,
            "columns": noted.columns,
            "headers": headers,
        },
        indent=2,
    )


def _grouped(store: Store, selection: Selection) -> dict[tuple[str, str], list[ArchivedWindow]]:
    found: dict[tuple[str, str], list[ArchivedWindow]] = defaultdict(list)
    for noted in windows(store, selection):
        found[noted.partition.graph, noted.identity.model].append(noted)
    return found
