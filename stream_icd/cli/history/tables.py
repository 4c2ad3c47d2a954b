"""How the archive is shown to people."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, replace

from rich.table import Table
from rich.text import Text

from stream_icd.history.archive import Selection, newest, windows
from stream_icd.history.files import ArchivedWindow
from stream_icd.memory.memory import BEFORE_ALL
from stream_icd.printable import printable
from stream_icd.store.store import Store


def graphs_table(store: Store, selections: Iterable[Selection]) -> Table:
    """A line for each kind, graph and model version."""
    table = Table("kind", "graph", "model", "first window", "last window", box=None)
    for name in ("windows", "revisions", "rows", "files", "MB"):
        table.add_column(name, justify="right")
    for selection in selections:
        grouped: dict[tuple[str, str], list[ArchivedWindow]] = defaultdict(list)
        for noted in windows(store, replace(selection, revisions="all")):
            grouped[noted.partition.graph, noted.identity.model].append(noted)
        for (graph, model), found in sorted(grouped.items()):
            files = {noted.path for noted in found}
            begins = [window.window.start for window in found if window.window != BEFORE_ALL]
            begins = begins or [BEFORE_ALL.start]
            table.add_row(
                selection.kind,
                Text(printable(graph)),
                Text(printable(model)),
                *(f"{one:%Y-%m-%d %H:%M}" for one in (begins[0], begins[-1])),
                f"{len(newest(found)):,}",
                f"{len(found):,}",
                f"{sum(noted.rows for noted in found):,}",
                f"{len(files):,}",
                f"{sum(map(store.size, files)) / 1e6:,.1f}",
            )
    return table


def windows_lines(store: Store, selection: Selection) -> Iterator[str]:
    """A line for each revision of each window.

    Columns: kind, beginning, end, rows, graph, snapshot, model, revision, newest or superseded.
    """
    found = list(windows(store, replace(selection, revisions="all")))
    replaced = {id(noted) for noted in found} - {id(noted) for noted in newest(found)}
    for noted in found:
        state = "superseded" if id(noted) in replaced else "newest"
        yield "\t".join(
            (
                selection.kind,
                noted.window.start.isoformat(),
                noted.window.end.isoformat(),
                str(noted.rows),
                *map(printable, (noted.partition.graph, *astuple(noted.identity))),
                state,
            )
        )


def shown(noted: ArchivedWindow, *, is_newest: bool) -> str:
    """A JSON object: where a message is kept, how many rows it has, and its headers."""
    headers = {name: value.decode(errors="replace") for name, value in noted.headers}
    return json.dumps(
        {
            "kind": noted.partition.kind,
            "graph": noted.partition.graph,
            "revision": noted.identity.revision,
            "newest": is_newest,
            "file": noted.path,
            "row_group": noted.row_group,
            "rows": noted.rows,
            "columns": noted.columns,
            "headers": headers,
        },
        indent=2,
    )
