"""A report of an archived graph: the page as one file, or its pictures."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Literal

from stream_icd.errors import BadSettings
from stream_icd.extras import needs_extra
from stream_icd.history.archive import Selection
from stream_icd.history.nothing import nothing_selected
from stream_icd.names.naming import Naming
from stream_icd.printable import printable, shortened
from stream_icd.store.store import Store
from stream_icd.store.whole_file import whole_file
from stream_icd.view.data.all_series import AllSeries, Budget
from stream_icd.view.data.series import SeriesName
from stream_icd.view.data.snapshots import KeptSnapshots, read_from_archive
from stream_icd.view.feeds.sources import Archived, Sources, names_of
from stream_icd.view.panels.queries import MOST_WINDOWS, Queries
from stream_icd.view.report.one_file import all_members, kept_answers, one_file


def read_archive(
    store: Store,
    graph: str | None = None,
    model: str | None = None,
    first: datetime | None = None,
    last: datetime | None = None,
    naming: Naming | None = None,
) -> tuple[Queries, SeriesName]:
    """Return what an archive holds, and the series to report.

    Args:
        model: only results of this model, given with its version or without.
        naming: names communities.

    Raises:
        BadSettings: nothing was selected, or several graphs are there and none is chosen.
        HistoryDamaged, StoreUnreachable: the archive cannot be read.
    """
    seen = AllSeries(Budget(windows=MOST_WINDOWS), naming)
    (origin,) = names_of([store])
    archived = Archived(store, origin, graph, first, last, model)
    archived.read(seen, lambda _: None, lambda: False)
    names = [one.name for one in seen.summaries()]
    if not names and archived.models:
        models = ", ".join(printable(shortened(name)) for name in archived.models)
        raise BadSettings(f"there are no results of that model; the archive has: {models}")
    if not names:
        raise nothing_selected(store, Selection("communities", graph, None, first, last))
    graphs = sorted({name.graph for name in names})
    if len(graphs) > 1:
        some = ", ".join(printable(shortened(one)) for one in graphs[:10])
        raise BadSettings(f"the archive holds {len(graphs)} graphs: choose with --graph: {some}")
    snapshots = KeptSnapshots(lambda _, one: read_from_archive(store, one))
    return Queries(seen, Sources(snapshots, archive=True)), names[0]


def left_out(queries: Queries, name: SeriesName) -> list[str]:
    """Return what an archive holds of a graph and its report does not, a sentence each."""
    said = []
    for one in queries.seen.summaries():
        if one.name == name:
            if one.dropped:
                said.append(
                    f"Windows left out at the beginning: {one.dropped:,}. A report has room for "
                    f"{MOST_WINDOWS:,} windows of {Budget().bytes // 2**20} MiB: choose others "
                    "with --from and --to."
                )
            if one.late:
                said.append(
                    f"Late results left out: {one.late:,}. They correct windows before the newest "
                    "one, or are older than it."
                )
        else:
            models = ", ".join(printable(shortened(model)) for model in one.models)
            said.append(
                f"Results of {models} left out: {one.kept + one.dropped:,}. Another model detected "
                f"the same windows; --model {printable(one.models[-1])} shows them instead."
            )
    return said


def write_html(queries: Queries, name: SeriesName, path: Path) -> Path:
    """Write the page as one file; replace it only when it is complete."""
    title = f"{shortened(printable(name.graph))}: communities"
    page = one_file(kept_answers(queries, name, left_out(queries, name)), title)
    with whole_file(path) as aside:
        aside.write_bytes(page.encode())
    return path


def write_pictures(
    queries: Queries, name: SeriesName, folder: Path, form: Literal["png", "svg"]
) -> list[Path]:
    """Write flow, map and life to a folder; return their paths.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with needs_extra("plot", "matplotlib"):
        from stream_icd.view.report.pictures import (
            flow_picture,
            life_picture,
            map_picture,
            places_picture,
        )

    windows = queries.seen.windows(name, MOST_WINDOWS)
    asked = name._asdict()
    drawn = queries.map(asked)
    placed = queries.places(asked) if drawn["placed"] else None
    # Without the graph there are no members, but the discs are still there.
    inside = all_members(queries, asked) if drawn["whole"] else None
    figures = {
        "flow": flow_picture(windows),
        "map": places_picture(placed) if placed else map_picture(drawn, inside),
        "life": life_picture(windows),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for picture, figure in figures.items():
        path = folder / f"{picture}.{form}"
        figure.savefig(path, dpi=150)
        paths.append(path)
    return paths
