"""A graph that changes: additions and removals of edges, and a snapshot of it at regular times.

The order of the changes in each stream (a partition of a topic) counts. A change takes effect at
its time, but not before the changes that precede it in its stream, nor in a window that is closed.
So no change is ever too late: it counts from the next window on. A snapshot says which changes of
each stream are in it, by the place of the next one, so that a later run continues exactly after
them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from threading import Event
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pyarrow as pa

from stream_icd.core.errors import BadRow, BadSettings, LimitExceeded
from stream_icd.core.node_ids import id_array
from stream_icd.core.snapshot import EPOCH, LEAST_WEIGHT, MOST_WEIGHT, Snapshot, snapshot_from_pairs
from stream_icd.core.times import microseconds, snapshot_id, time_at, window_at
from stream_icd.sources.source import Count, OnBadRow, RawRows, count_nothing
from stream_icd.sources.values import (
    IdForm,
    KindBefore,
    TimeUnit,
    read_numbers,
    read_times,
    shown_value,
)
from stream_icd.sources.windows import NEVER, Quiet

Id = int | str
Op = Literal["add", "remove"]
_OPS = ("add", "remove")
_SOURCE = "urn:stream_icd:changes"
_MOST_WINDOWS = 100_000
"""Windows without a change that are sent in a row, at most: a wrong time may be decades away."""
MOST_STREAMS = 48
"""Places of so many streams fit the source of a snapshot, of at most 1024 bytes."""


@dataclass(frozen=True, slots=True)
class Change:
    """An edge or a node that is added or removed.

    Attributes:
        time: microseconds since 1970 UTC.
        stream, place: where it was read.
        dst: None: a node; if it is removed, its edges are, too.
        weight: of an edge that is added; None: it has none.
    """

    time: int
    stream: int
    place: int
    op: Op
    src: Id
    dst: Id | None
    weight: float | None = None


@dataclass(slots=True)
class StandingGraph:
    """The graph as it stands. An edge that is added again has the new weight, and once. Its nodes
    stay when it is removed, until they are removed themselves."""

    weighted: bool = False
    n_edges: int = 0
    _neighbours: dict[Id, dict[Id, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> StandingGraph:
        """Return the graph of a snapshot."""
        names = snapshot.nodes.to_pylist()
        graph = cls(snapshot.weights is not None, _neighbours={name: {} for name in names})
        weights = np.ones(snapshot.n_edges) if snapshot.weights is None else snapshot.weights
        for src, dst, weight in zip(*snapshot.edges.tolist(), weights.tolist(), strict=True):
            graph._join(names[src], names[dst], weight)
        return graph

    def nodes(self) -> KeysView[Id]:
        """Return the ids of its nodes."""
        return self._neighbours.keys()

    def copy(self) -> StandingGraph:
        """Return one that changes on its own."""
        neighbours = {node: linked.copy() for node, linked in self._neighbours.items()}
        return StandingGraph(self.weighted, self.n_edges, neighbours)

    def apply(self, change: Change) -> None:
        """Add or remove what the change says; removing what is not there changes nothing."""
        src, dst = change.src, change.dst
        if change.op == "add" and dst is None:
            self._neighbours.setdefault(src, {})
        elif change.op == "add" and dst is not None:
            self.weighted = self.weighted or change.weight is not None
            self._join(src, dst, 1.0 if change.weight is None else change.weight)
        elif dst is None:
            for neighbour in list(self._neighbours.get(src, ())):
                self._part(src, neighbour)
            self._neighbours.pop(src, None)
        else:
            self._part(src, dst)

    def drop_isolated(self) -> None:
        """Remove the nodes without an edge."""
        for node in [node for node, linked in self._neighbours.items() if not linked]:
            del self._neighbours[node]

    def snapshot(self, graph: str, start: int, end: int, source: str) -> Snapshot:
        """Return it as the snapshot of a window; there must be an edge."""
        pairs = [
            (src, dst, weight)
            for src, linked in self._neighbours.items()
            for dst, weight in linked.items()
            if src < dst  # type: ignore[operator]
        ]
        alone = [node for node, linked in self._neighbours.items() if not linked]
        src, dst, weights = zip(*pairs, strict=True)
        ids = id_array([*src, *alone])
        window = window_at(start, end)
        return snapshot_from_pairs(
            ids,
            pa.array([*dst, *(None for _ in alone)], ids.type),
            graph=graph,
            id=snapshot_id(graph, window),
            window=window,
            weights=[*weights, *(1.0 for _ in alone)] if self.weighted else None,
            source=source,
        )

    def _join(self, src: Id, dst: Id, weight: float) -> None:
        of_src, of_dst = (self._neighbours.setdefault(node, {}) for node in (src, dst))
        if src != dst:
            self.n_edges += dst not in of_src
            of_src[dst] = of_dst[src] = weight

    def _part(self, src: Id, dst: Id) -> None:
        if dst in self._neighbours.get(src, {}):
            del self._neighbours[src][dst], self._neighbours[dst][src]
            self.n_edges -= 1


def _source_of(topic: str, places: Mapping[int, int]) -> str:
    """Return the source of a snapshot: the topic, and the next place of each stream.

    >>> _source_of("edges", {0: 12, 1: 7})
    'urn:stream_icd:changes?topic=edges&next=0@12,1@7'
    """
    after = ",".join(f"{stream}@{place}" for stream, place in sorted(places.items()))
    return f"{_SOURCE}?topic={quote(topic)}&next={after}"


def _places_in(source: str, topic: str) -> dict[int, int]:
    """Return the places in the source of a snapshot (`_source_of`).

    Raises `BadSettings` if it is not one of changes in this topic.
    """
    parts = urlsplit(source)
    query = parse_qs(parts.query)
    other_topic = query.get("topic", [""])[0]
    if not source.startswith(f"{_SOURCE}?") or other_topic != topic:
        raise BadSettings(
            f"the last snapshot of the graph comes from {other_topic or source}, not from changes "
            f"in {topic}: give this graph another --graph"
        )
    after = query.get("next", [""])[0]
    pairs = (pair.partition("@") for pair in after.split(",") if pair)
    return {int(stream): int(place) for stream, _, place in pairs}


@dataclass(slots=True)
class ChangeColumns:
    """Reads changes from rows of text with the columns op, src, dst, weight and a time."""

    time: str
    on_bad_row: OnBadRow
    kind_before: KindBefore
    time_unit: TimeUnit = "s"
    _ids: IdForm = field(default_factory=lambda: IdForm("auto"))

    @property
    def names(self) -> list[str]:
        return ["op", "src", "dst", "weight", self.time]

    def read(self, batch: RawRows) -> list[Change]:
        """Return the good changes of a batch, in order; report the others."""
        rows = batch.rows
        if self._ids.kind == "auto":
            ends = {"src": rows["src"], "dst": rows["dst"]}
            self._ids = IdForm.of(ends, self.kind_before, untyped=batch.untyped)
        time, timely = read_times(rows[self.time], self.time_unit, "UTC")
        weight, heavy = read_numbers(
            rows["weight"], lambda values: (values >= LEAST_WEIGHT) & (values <= MOST_WEIGHT)
        )
        ids = {name: self._ids.read(rows[name], name) for name in ("src", "dst")}
        texts = {name: rows[name].to_pylist() for name in ("op", "dst", "weight")}
        src, dst = (ids[name][0].to_pylist() for name in ("src", "dst"))
        changes = []
        for at, place in enumerate(batch.place.tolist()):
            op, has_weight = texts["op"][at], bool(texts["weight"][at])
            wrong = ""
            if op not in _OPS:
                wrong = f"op {op!r:.40} is neither add nor remove"
            elif not timely[at]:
                wrong = f"{self.time} {shown_value(rows[self.time][at])!r:.60} is not a time"
            elif not ids["src"][1][at]:
                wrong = f"src is {self._ids.fault(rows['src'][at])}"
            elif texts["dst"][at] and not ids["dst"][1][at]:
                wrong = f"dst is {self._ids.fault(rows['dst'][at])}"
            elif has_weight and not heavy[at]:
                wrong = f"weight {texts['weight'][at]!r:.40} is out of range or not a number"
            if wrong:
                self.on_bad_row(BadRow(f"{batch.origin}:{place}: {wrong}"))
                continue
            node = dst[at] if texts["dst"][at] else None
            weighs = float(weight[at]) if has_weight else None
            when = int(time[at])
            changes.append(Change(when, batch.stream, place, op, src[at], node, weighs))
        return changes


_Arrivals = Iterable[Sequence[Change] | Quiet]


@dataclass(slots=True)
class StandingWindows:
    """Applies changes to a graph, window after window, and makes its snapshots.

    A window closes when each stream has a change after its end; streams that are quiet are not
    waited for, and if all are, when it is over by the clock `now` (microseconds since 1970 UTC). A
    time in the future of the clock counts as now. Counts `empty_windows`, at whose end there is no
    edge, and with `only_changed` `unchanged_windows`; neither makes a snapshot.

    Continues after the snapshot `last`, if there is one; raises `BadSettings` if that is not one of
    changes in this topic.
    """

    last: InitVar[Snapshot | None]
    graph: str
    topic: str
    every: timedelta
    n_streams: int
    now: Callable[[], int]
    only_changed: bool = False
    isolated: bool = True  # whether nodes without an edge stay
    count: Count = count_nothing
    places: dict[int, int] = field(init=False)  # the next one of each stream
    _standing: StandingGraph = field(init=False)
    _held: list[Change] = field(init=False, default_factory=list)
    _newest: dict[int, int] = field(init=False)
    _closed: int = field(init=False, default=NEVER)

    def __post_init__(self, last: Snapshot | None) -> None:
        self._standing, self.places = StandingGraph(), {}
        if last is not None:
            self.places = _places_in(last.source, self.topic)
            self._standing = StandingGraph.of(last)
            self._closed = microseconds(last.window.end - EPOCH)
        self._newest = dict.fromkeys(range(self.n_streams), self._closed)

    def snapshots(self, arrivals: _Arrivals, stop: Event = Event()) -> Iterator[Snapshot]:
        """Yield the graph at the end of each window; at the end of the arrivals, those with changes
        that are over.

        Raises `LimitExceeded` if more than `_MOST_WINDOWS` lie between two changes.
        """
        quiet: frozenset[int] = frozenset()
        for arrived in arrivals:
            if stop.is_set():
                return
            if isinstance(arrived, Quiet):
                quiet = arrived.streams
            else:
                self._take(arrived)
            awaited = [time for stream, time in self._newest.items() if stream not in quiet]
            yield from self._until(min(awaited) if awaited else self.now())
        if self._held and not stop.is_set():
            last_end = _start(self._held[-1].time, self._step) + self._step
            yield from self._until(min(last_end, self.now()))

    @property
    def _step(self) -> int:
        return microseconds(self.every)

    def _take(self, changes: Sequence[Change]) -> None:
        """Hold changes, in the order in which they take effect."""
        now = self.now()
        for change in changes:
            before = max(self._newest.get(change.stream, NEVER), self._closed)
            # Never before those that precede it in its stream, nor in a window that was sent.
            time = max(min(change.time, now), before)
            self._newest[change.stream] = time
            self._held.append(change if time == change.time else replace(change, time=time))
        # By place last: whatever streams were read first, the same changes give the same graph.
        self._held.sort(key=attrgetter("time", "stream", "place"))

    def _until(self, time: int) -> Iterator[Snapshot]:
        """Close the windows that end until then."""
        step, boundary = self._step, _start(time, self._step)
        if self._closed == NEVER:
            if not self._held:
                return
            begin = _start(self._held[0].time, step)
        else:
            begin = _start(self._closed, step)
        if boundary <= begin:
            return
        n_due = bisect_left(self._held, boundary, key=attrgetter("time"))
        due, self._held = self._held[:n_due], self._held[n_due:]
        by_window = {
            start: list(changes)
            for start, changes in groupby(due, lambda change: _start(change.time, step))
        }
        for start in self._starts(begin, boundary, by_window):
            yield from self._close(start, by_window.get(start, ()))
        self._closed = boundary

    def _starts(self, begin: int, end: int, changed: Collection[int]) -> Iterable[int]:
        n_windows = (end - begin) // self._step
        if self.only_changed:
            self.count("unchanged_windows", n_windows - len(changed))
            return sorted(changed)
        if n_windows - len(changed) > _MOST_WINDOWS:
            raise LimitExceeded(
                f"there are {n_windows:,} windows of {self.every} from {time_at(begin)} to "
                f"{time_at(end)}, and changes in {len(changed):,}: choose a longer --every, or "
                "--only-changed"
            )
        return range(begin, end, self._step)

    def _close(self, start: int, changes: Iterable[Change]) -> Iterator[Snapshot]:
        graph, end = self._standing, start + self._step
        for change in changes:
            graph.apply(change)
            # In the source of this snapshot: the next run continues exactly after it.
            self.places[change.stream] = change.place + 1
        self._closed = end
        if not self.isolated:
            graph.drop_isolated()
        if graph.n_edges:
            yield graph.snapshot(self.graph, start, end, _source_of(self.topic, self.places))
        else:
            self.count("empty_windows", 1)


def _start(time: int, step: int) -> int:
    return time // step * step
