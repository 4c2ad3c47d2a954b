"""What can be followed, as a line of text, as JSON, and as an Arrow table; and with names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.core.arrays import Shares
from stream_icd.core.communities import Communities
from stream_icd.core.errors import BadSettings
from stream_icd.core.events import CommunityEvents
from stream_icd.core.printable import printable, say, shortened
from stream_icd.methods.tracking.confirmation import NOTHING_KNOWN, FollowedEvents
from stream_icd.methods.tracking.sentences import (
    called_by,
    certainty,
    sentence,
    without_consequences,
)
from stream_icd.streaming.subscribers.subscribe import NodeChange
from stream_icd.wire.communities import SUMMARY, membership_table
from stream_icd.wire.events import event_table

if TYPE_CHECKING:
    from stream_icd.methods.names.names import Name, Naming

_Result = Communities | CommunityEvents | NodeChange
Item = TypeVar("Item", bound=_Result)
_Names = Mapping[int | None, str]
_ZONED = pa.timestamp("us", tz="UTC")

_SHOWN = 3
"""Names in the line of a result: those of its largest communities."""

_MOST_GRAPHS = 1000
"""Graphs whose names are kept until their next window: the last ones that had a result."""


class Shape(ABC, Generic[Item]):
    """How results of one kind are shown."""

    titles: str

    @property
    def heading(self) -> str:
        return f"{'graph':<12} {'snapshot':<28} {self.titles}"

    def lines(self, result: Item) -> Iterator[str]:
        graph, snapshot = printable(result.graph), printable(result.snapshot_id)
        for text in self.texts(result):
            yield f"{graph:<12} {snapshot:<28} {printable(text)}"

    def document(self, result: Item) -> dict[str, Any]:
        return {**_place(result), **self.values(result)}

    def table(self, result: Item) -> pa.Table:
        """Return rows; the same columns for each result."""
        columns = self.columns(result)
        rows = len(next(iter(columns.values())))
        times = {"window_start": result.window.start, "window_end": result.window.end}
        place = _place(result) | {name: pa.scalar(time, _ZONED) for name, time in times.items()}
        return pa.table({name: pa.repeat(value, rows) for name, value in place.items()} | columns)

    @abstractmethod
    def texts(self, result: Item) -> Iterator[str]:
        """Yield what follows graph and snapshot in the lines."""

    @abstractmethod
    def values(self, result: Item) -> dict[str, Any]:
        """Return what follows the place of the result in the document."""

    @abstractmethod
    def columns(self, result: Item) -> dict[str, pa.Array]:
        """Return what follows the place of the result in the table."""


def shape_of(
    kind: Literal["communities", "events", "node", "members"],
    *,
    left_out: Collection[str] = (),
    least_bits: float = -inf,
    community: int | None = None,
    naming: Naming | None = None,
    of_one_graph: bool = False,
) -> Shape[Any]:
    """Return how results of a kind are shown.

    Args:
        left_out: kinds of events that lines leave out, as they do what another event causes.
        least_bits: lines leave out weaker events; one without a strength stays.
        community: whose members are shown; None: of the one that a node is in now.
        naming: names communities: in lines, as `names` in JSON, as column `name`. Events in words
            name each community that takes part; other lines end with the name of theirs. The names
            that a tracker gave to events are replaced.
        of_one_graph: it is an error if attributes name nodes by ids of another type than the
            graph. Else graphs with such nodes have no names.
    """
    shapes: dict[str, Shape[Any]] = {
        "communities": _OfCommunities(),
        "events": _OfEvents(left_out, least_bits),
        "node": _OfNode(),
        "members": _OfMembers(community),
    }
    shape = shapes[kind]
    return shape if naming is None else _Named(shape, naming, of_one_graph=of_one_graph)


def _place(result: _Result) -> dict[str, Any]:
    return {
        "graph": result.graph,
        "snapshot_id": result.snapshot_id,
        "window_start": result.window.start.isoformat(),
        "window_end": result.window.end.isoformat(),
        "model": result.model,
        "revision": result.revision,
    }


class _OfCommunities(Shape[Communities]):
    titles = (
        f"{'nodes':>8} {'edges':>9} {'communities':>11} {'modularity':>10} "
        f"{'evidence':>8} {'probable':>8} {'horizon':>7} {'predicted':>9} "
        f"{'largest':>8} {'ms':>8}  model"
    )

    def texts(self, result: Communities) -> Iterator[str]:
        yield (
            f"{result.n_nodes:>8,} {result.n_edges:>9,} "
            f"{result.n_communities:>11,} {result.modularity:>10.4f} "
            f"{result.evidence or '-':>8} {_or_dash(_mean(result.probabilities), '.2f'):>8} "
            f"{_or_dash(result.horizon, ',.1f'):>7} {_or_dash(result.predicted_bits, ',.3f'):>9} "
            f"{int(result.sizes.max()):>8,} "
            f"{sum(result.milliseconds.values()):>8.1f}  {result.model}"
        )

    def values(self, result: Communities) -> dict[str, Any]:
        return {
            "n_nodes": result.n_nodes,
            "n_edges": result.n_edges,
            "n_communities": result.n_communities,
            "modularity": result.modularity,
            "ncut": result.ncut,
            **{name: getattr(result, name) for name in SUMMARY},
            "milliseconds": result.milliseconds,
            "detected_at": result.detected_at.isoformat(),
            "nodes": result.nodes.to_pylist(),
            "communities": result.labels.tolist(),
            "community_ids": _listed(result.community_ids),
            "probabilities": _written(result.probabilities),
            "second_ids": _listed(result.second_ids),
            "second_probabilities": _written(result.second_probabilities),
            "replaced": _listed(result.replaced),
            "moved": _listed(result.moved),
            "moved_bits": _listed(result.moved_bits),
            "levels": _listed(result.levels),
            "memory": result.memory,
        }

    def columns(self, result: Communities) -> dict[str, pa.Array]:
        n, table = result.n_nodes, membership_table(result)
        summary = {
            name: pa.repeat(pa.scalar(getattr(result, name), type), n)
            for name, type in SUMMARY.items()
        }
        return summary | dict(zip(table.column_names, table.columns, strict=True))


def _or_dash(value: float | None, form: str = "") -> str:
    return "-" if value is None else format(value, form)


def _mean(shares: Shares | None) -> float | None:
    return None if shares is None else float(shares.mean(dtype=np.float64))


def _written(shares: Shares | None) -> list[float] | None:
    """Return probabilities with as few digits as they have."""
    return None if shares is None else [float(str(share)) for share in shares]


def _listed(values: NDArray[Any] | None) -> list[Any] | None:
    return None if values is None else values.tolist()


class _OfEvents(Shape[CommunityEvents]):
    titles = f"{'event':<10} {'community':>9} {'before':>8} {'members':>8}  what happened"

    def __init__(self, left_out: Collection[str], least_bits: float) -> None:
        self.left_out = left_out
        self.least_bits = least_bits

    def texts(self, result: CommunityEvents) -> Iterator[str]:
        names = result.names if isinstance(result, FollowedEvents) else {}
        shown = {community: shortened(name) for community, name in names.items()}
        yield from self.sentences(result, shown)

    def sentences(self, result: CommunityEvents, names: Mapping[int, str]) -> Iterator[str]:
        """Yield the lines; `names`: of the communities of this window and of the one before."""
        if result.late:
            yield "came too late to be tracked"
        window = result if isinstance(result, FollowedEvents) else FollowedEvents.of(result)
        called, now = called_by(names), Counter(result.communities.tolist())
        before = Counter([] if window.before is None else window.before.communities.tolist())
        for event in without_consequences(result.events):
            strong = event.bits is None or event.bits >= self.least_bits
            if strong and event.kind not in self.left_out:
                happened = sentence(event, called, before, now)
                time, undone = window.lasted.get(event, NOTHING_KNOWN)
                sure = certainty(event, time, undone=undone)
                yield (
                    f"{event.kind:<10} {event.community:>9} {event.size_before:>8,} "
                    f"{event.size:>8,}  {'; '.join(filter(None, (happened, sure)))}"
                )

    def values(self, result: CommunityEvents) -> dict[str, Any]:
        return {
            "model_before": result.model_before,
            "missed": result.missed,
            "late": result.late,
            "events": [asdict(event) for event in result.events],
            "nodes": result.nodes.to_pylist(),
            "communities": result.communities.tolist(),
        }

    def columns(self, result: CommunityEvents) -> dict[str, pa.Array]:
        table = event_table(result)
        return dict(zip(table.column_names, table.columns, strict=True))


class _OfNode(Shape[NodeChange]):
    titles = f"{'node':>10} {'before':>8} {'now':>8}  what happened"

    def texts(self, result: NodeChange) -> Iterator[str]:
        happened = ", ".join(f"{event.kind} {event.community}" for event in result.events)
        before, after = _or_dash(result.before), _or_dash(result.after)
        yield f"{result.node!s:>10} {before:>8} {after:>8}  {happened}"

    def values(self, result: NodeChange) -> dict[str, Any]:
        return {
            "node": result.node,
            "before": result.before,
            "after": result.after,
            "events": [asdict(event) for event in result.events],
        }

    def columns(self, result: NodeChange) -> dict[str, pa.Array]:
        return {
            "node": pa.array([str(result.node)]),
            "before": pa.array([result.before], pa.int64()),
            "after": pa.array([result.after], pa.int64()),
        }


class _OfMembers(Shape[CommunityEvents | NodeChange]):
    titles = f"{'community':>9} {'size':>8}  members"

    def __init__(self, community: int | None) -> None:
        self.community = community

    def texts(self, result: CommunityEvents | NodeChange) -> Iterator[str]:
        community, nodes = self._members(result)
        ids = " ".join(map(str, nodes.to_pylist()))
        yield f"{_or_dash(community):>9} {len(nodes):>8,}  {ids}"

    def values(self, result: CommunityEvents | NodeChange) -> dict[str, Any]:
        community, nodes = self._members(result)
        return {"community": community, "members": nodes.to_pylist()}

    def columns(self, result: CommunityEvents | NodeChange) -> dict[str, pa.Array]:
        community, nodes = self._members(result)
        return {"community": pa.array([community] * len(nodes), pa.int64()), "node": nodes}

    def _members(self, result: CommunityEvents | NodeChange) -> tuple[int | None, pa.Array]:
        community = result.after if isinstance(result, NodeChange) else self.community
        return community, result.members_of(community)


class _Named(Shape[Item]):
    def __init__(self, shape: Shape[Item], naming: Naming, *, of_one_graph: bool) -> None:
        self.titles = shape.titles if isinstance(shape, _OfEvents) else f"{shape.titles}  name"
        self._shape = shape
        self._naming = naming
        self._of_one_graph = of_one_graph
        self._warned = False
        # By graph: its last snapshot, the names there, and those in the one before.
        self._last: OrderedDict[str, tuple[str, _Names, _Names]] = OrderedDict()

    def texts(self, result: Item) -> Iterator[str]:
        if isinstance(self._shape, _OfEvents) and isinstance(result, CommunityEvents):
            yield from self._shape.sentences(result, self._of_sentences(result))
            return
        names = self._of_lines(result)
        for text in self._shape.texts(result):
            yield f"{text}  {next(names, '')}".rstrip()

    def values(self, result: Item) -> dict[str, Any]:
        names = {str(community): name for community, name in self._names_of(result).items()}
        return {**self._shape.values(result), "names": names}

    def columns(self, result: Item) -> dict[str, pa.Array]:
        columns, names = self._shape.columns(result), self._names_of(result)
        column = "after" if "after" in columns else "community"
        if isinstance(result, Communities) and result.community_ids is not None:
            column = "community_id"
        columns.pop("name", None)
        of_rows = [names.get(community) for community in columns[column].to_pylist()]
        return {**columns, "name": pa.array(of_rows, pa.string())}

    def _names_of(self, result: Item) -> _Names:
        """Return the names of the communities of a result, and of those that have just ended."""
        nodes, ids = _assignment(result)
        if not len(nodes):  # it is late
            return {}
        snapshot, last, before = self._last.pop(result.graph, ("", {}, {}))
        if snapshot != result.snapshot_id:  # else another revision, or of another model
            before = last
        names = self._of_members(result.graph, nodes, ids)
        now: _Names = {community: str(name) for community, name in names.items()}
        self._last[result.graph] = result.snapshot_id, now, before
        if len(self._last) > _MOST_GRAPHS:
            self._last.popitem(last=False)
        if isinstance(result, Communities) and result.community_ids is None:
            return now  # another window has other communities of these numbers
        present = set(ids.tolist())
        ended = {number: name for number, name in before.items() if number not in present}
        return {**ended, **now}

    def _of_lines(self, result: Item) -> Iterator[str]:
        names = self._names_of(result)
        if isinstance(result, Communities):
            ids, sizes = np.unique(_assignment(result)[1], return_counts=True)
            largest = ids[np.argsort(-sizes, kind="stable")].tolist()
            yield "; ".join([names[at] for at in largest if at in names][:_SHOWN])
        elif isinstance(result, NodeChange):
            yield names.get(result.after, "")
        elif isinstance(self._shape, _OfMembers):
            yield names.get(self._shape.community, "")

    def _of_sentences(self, result: CommunityEvents) -> dict[int, str]:
        """Return the names of a window and of the one before, without counts."""
        before = result.before if isinstance(result, FollowedEvents) else None
        names: dict[int, str] = {}
        for window in (before, result):
            if window is not None and len(window.nodes):
                of_window = self._of_members(window.graph, window.nodes, window.communities)
                names |= {community: name.briefly() for community, name in of_window.items()}
        return names

    def _of_members(
        self, graph: str, nodes: pa.Array, ids: NDArray[np.integer]
    ) -> Mapping[int, Name]:
        window = self._naming.window(graph, nodes, ids)
        if window is not None:
            return window.names()
        if self._naming.is_of_none:
            raise BadSettings(self._naming.trouble)
        if (why := self._naming.other_ids) and self._of_one_graph:
            raise BadSettings(why)
        if why and not self._warned:
            say(f"no names of graph {graph}: {why}", err=True)
            self._warned = True
        return {}


def _assignment(result: _Result) -> tuple[pa.Array, NDArray[np.integer]]:
    if isinstance(result, NodeChange):
        result = result.window_events
    if isinstance(result, CommunityEvents):
        return result.nodes, result.communities
    ids = result.ids_of_nodes
    return result.nodes, result.labels if ids is None else ids
