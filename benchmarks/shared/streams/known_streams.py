"""Streams of windows whose classes are known: real ones from files, planted ones by seed.

Some are for choosing (rules, constants), others only for reporting. A stream that is drawn has
seeds for both: those below 1,000 are for choosing, those from `TEST_SEED` on for reporting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.streams.memory_streams import Stream
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

Purpose = Literal["choose", "report"]
FIRST_SEED: dict[Purpose, int] = {"choose": 0, "report": TEST_SEED}
BOTH: tuple[Purpose, ...] = ("choose", "report")

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY, YEAR = timedelta(hours=1), timedelta(days=1), timedelta(days=365)

N_PLANTED = 12
"""Windows of a planted stream."""

AS_DAYS = range(540, 580)
"""These are complete: each has more than 8,000 edges."""

FEWEST_PEOPLE = 20
"""Windows of fewer people are nights and weekends: gaps in the stream."""

NO_CLASS = -1


@dataclass(frozen=True, eq=False)
class KnownWindow:
    """A window, and the class of each of its nodes, `(n_nodes,)`; `NO_CLASS` if it is unknown."""

    snapshot: Snapshot
    classes: NDArray[np.int64]

    @property
    def n_classes(self) -> int:
        """Number of classes among its nodes."""
        return len(np.unique(self.classes[self.classes != NO_CLASS]))


@dataclass(frozen=True)
class KnownStream:
    """A stream that methods are compared on.

    Attributes:
        load: its windows, for a seed; real streams ignore the seed.
        purposes: what it is for.
        drawn: another seed is another stream of its kind.
    """

    name: str
    load: Callable[[int], list[KnownWindow]]
    purposes: tuple[Purpose, ...] = BOTH
    drawn: bool = True

    def seeds(self, purpose: Purpose, n_seeds: int) -> range:
        """Its seeds for a purpose: one if it is real, none if it is not for that purpose."""
        if purpose not in self.purposes:
            return range(0)
        first = FIRST_SEED[purpose]
        return range(first, first + (n_seeds if self.drawn else 1))


NUMBERED: tuple[tuple[str, timedelta, Purpose], ...] = (
    ("brain", DAY, "choose"),
    ("dblp", YEAR, "report"),
    ("workplace_hours", HOUR, "choose"),
    ("basketball_weeks", 7 * DAY, "choose"),
    ("un_votes", YEAR, "choose"),
    ("ants_1", DAY, "choose"),
    ("hospital", 6 * HOUR, "choose"),
)
"""Real streams whose files number their windows: name, length of a window, purpose."""


def known_streams(data: Path) -> dict[str, KnownStream]:
    """All streams by name; the files of the real ones are in `data`, and read by `load`."""
    return {stream.name: stream for stream in (*_real(data), *PLANTED)}


def _real(data: Path) -> Iterator[KnownStream]:
    edges, labels = data / "labelled" / "edges", data / "labelled" / "labels"
    school = "events_contacts_high_school_2012.parquet"
    for name, length, purpose in (
        ("high school 2012, hours", HOUR, "report"),
        ("high school 2012, days", DAY, "choose"),
    ):
        windows = partial(contacts, edges / school, length, FEWEST_PEOPLE)
        yield _from_files(name, windows, labels / school, purpose)
    for name, length, purpose in NUMBERED:
        file = f"stream_{name}.parquet"
        windows = partial(numbered_windows, edges / file, length)
        yield _from_files(name, windows, labels / file, purpose, length)
    countries = labels / "as733_countries.parquet"
    days = partial(internet_days, data / "as733.parquet", AS_DAYS)
    yield _from_files("AS with countries", days, countries, "report")
    for path in sorted(edges.glob("dynamic_*.parquet")):
        name = "Greene's " + path.stem.removeprefix("dynamic_")
        yield _from_files(name, partial(dated_windows, path), labels / path.name, "report")


def _from_files(
    name: str,
    windows: Callable[[], Iterator[Snapshot]],
    labels: Path,
    purpose: Purpose,
    length: timedelta = DAY,
) -> KnownStream:
    def load(_seed: int) -> list[KnownWindow]:
        return list(with_classes(windows(), labels, length))

    return KnownStream(name, load, (purpose,), drawn=False)


def planted_windows(stream: Stream, seed: int, n_windows: int = N_PLANTED) -> list[KnownWindow]:
    """Windows of an hour of a drifting LFR stream."""
    return _known(stream.windows(seed, n_windows))


def changed_windows(stream: Stream, seed: int, n_windows: int = N_PLANTED) -> list[KnownWindow]:
    """The same nodes throughout; in the middle, all communities change at once."""
    half = n_windows // 2
    after = stream.windows(seed + 500, n_windows - half)
    return _known([*stream.windows(seed, half), *after])


def _planted() -> Iterator[KnownStream]:
    """Drifting LFR graphs. But for the last two kinds, nodes move one by one, and no more."""
    choose: tuple[Purpose, ...] = ("choose",)
    report: tuple[Purpose, ...] = ("report",)
    for name, stream, purposes in (
        ("LFR μ .3, 5,000 nodes, 2 % move", Stream(0.3), BOTH),
        ("LFR μ .6, 5,000 nodes, 2 % move", Stream(0.6), BOTH),
        ("LFR μ .7, 5,000 nodes, 2 % move", Stream(0.7), BOTH),
        ("LFR μ .6, 1,000 nodes, 2 % move", Stream(0.6, 1000), BOTH),
        ("LFR μ .6, 500 nodes, 2 % move", Stream(0.6, 500), choose),
        ("LFR μ .6, 5,000 nodes, 20 % move", Stream(0.6, churn=0.2), BOTH),
        ("LFR μ .6, 2,000 nodes, 2 % move", Stream(0.6, 2000), report),
        ("LFR μ .6, 1,000 nodes, 20 % move", Stream(0.6, 1000, 0.2), report),
    ):
        calm = replace(stream, events=False)
        yield KnownStream(name, partial(planted_windows, calm), purposes)
    yield KnownStream("like Greene's, K 600, 20 % move", like_greenes, report)
    eventful, calm = Stream(0.6), Stream(0.6, events=False)
    yield KnownStream("LFR μ .6, mergers, splits, births", partial(planted_windows, eventful))
    yield KnownStream("LFR μ .6, complete change", partial(changed_windows, calm))


def like_greenes(seed: int, n_windows: int = N_PLANTED) -> list[KnownWindow]:
    """As the streams of Greene, Doyle and Cunningham (ASONAM 2010): many small communities."""
    sizes = LfrSettings(
        n_nodes=5000, mixing=0.3, mean_degree=5, max_degree=15, min_community=4, max_community=15
    )
    drifting = generate_drifting_lfr(seed, n_windows, sizes, churn=0.2, event_rate=0.0)
    return _known([graph for graph, _ in drifting])


PLANTED = tuple(_planted())


def with_classes(
    windows: Iterator[Snapshot], labels: Path, length: timedelta = DAY
) -> Iterator[KnownWindow]:
    """Add the classes in a file: of each window, if it dates or numbers them; else constant.

    length: of a window, if they are numbered.
    """
    table = pq.read_table(labels).to_pandas().dropna()
    if "window" in table:
        table["window_start"] = START + table.window * length
    codes = pd.factorize(table.label)[0].astype(np.int64)
    dated = "window_start" in table
    for window in windows:
        rows = np.full(len(table), True)
        if dated:
            rows = (table.window_start == pd.Timestamp(window.window.start)).to_numpy()
        place = pd.Index(table.node[rows]).get_indexer(names_of(window))
        yield KnownWindow(window, np.append(codes[rows], NO_CLASS)[place])  # [-1]: not in the file


def names_of(window: Snapshot) -> NDArray[Any]:
    """The ids of its nodes, numbers or texts."""
    return np.asarray(window.nodes.to_numpy(zero_copy_only=False))


def snapshot_of(graph: PlantedGraph, number: int) -> Snapshot:
    """Window `number` of a planted stream, an hour long."""
    nodes = pa.array(np.arange(graph.n_nodes))
    return Snapshot("planted", str(number), hour(number), nodes, graph.edges, None)


def _known(graphs: list[PlantedGraph]) -> list[KnownWindow]:
    return [
        KnownWindow(snapshot_of(graph, number), graph.communities.astype(np.int64))
        for number, graph in enumerate(graphs)
    ]


def hour(number: int) -> Window:
    """The window of hour `number`."""
    return _span(START + number * HOUR, HOUR)


def contacts(path: Path, length: timedelta, least_people: int) -> Iterator[Snapshot]:
    """Contacts in windows of the clock, how often as weight; windows of few people are gaps."""
    table = pq.read_table(path).to_pandas()
    yield from event_windows(table, table.time.dt.floor(length), length, least_people)


def event_windows(
    table: pd.DataFrame, starts: pd.Series, length: timedelta, least_nodes: int
) -> Iterator[Snapshot]:
    """Events in windows, by the start of each one's; windows of few nodes are gaps."""
    for start, events in table.groupby(starts):
        events = events[events.src != events.dst]
        if len(pd.unique(events[["src", "dst"]].to_numpy().ravel())) >= least_nodes:
            yield snapshot_in(events.assign(weight=1.0), _span(start.to_pydatetime(), length))


def numbered_windows(path: Path, length: timedelta) -> Iterator[Snapshot]:
    """The windows of a file whose column `window` numbers them."""
    for number, pairs in pq.read_table(path).to_pandas().groupby("window"):
        yield snapshot_in(pairs, _span(START + int(number) * length, length))


def dated_windows(path: Path, length: timedelta = DAY) -> Iterator[Snapshot]:
    """The windows of a file whose column `window_start` dates them."""
    for start, pairs in pq.read_table(path).to_pandas().groupby("window_start"):
        yield snapshot_in(pairs, _span(start.to_pydatetime(), length))


def internet_days(path: Path, days: range) -> Iterator[Snapshot]:
    """Those days of AS-733, by their number in the order of time."""
    table = pq.read_table(path).to_pandas()
    table = table[table.snapshot.isin(np.unique(table.snapshot)[days])]
    for day, pairs in table.groupby("window_start"):
        yield snapshot_in(pairs, _span(datetime(day.year, day.month, day.day, tzinfo=UTC), DAY))


def snapshot_in(pairs: pd.DataFrame, window: Window) -> Snapshot:
    """The snapshot of the pairs in a window; its id is the start of the window."""
    return snapshot_from_pairs(
        pairs.src.to_numpy(),
        pairs.dst.to_numpy(),
        weights=pairs.weight.to_numpy() if "weight" in pairs else None,
        graph="stream",
        id=window.start.isoformat(),
        window=window,
    )


def _span(start: datetime, length: timedelta) -> Window:
    return Window(start, start + length)
