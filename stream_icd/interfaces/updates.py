"""A graph that is kept and updated: its communities after each change, and which changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.arrays import Ids
from stream_icd.core.errors import BadInput
from stream_icd.core.snapshot import LEAST_WEIGHT, MOST_WEIGHT
from stream_icd.methods.memory.detect import Remembered
from stream_icd.methods.memory.memory import Memory
from stream_icd.sources.changes import Change, Id, Op, StandingGraph

_STEP = 1_000_000
"""Updates are windows of a second each, in microseconds: memory needs an order, and no clock."""


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The communities of a graph after an update.

    Attributes:
        nodes: ids of the nodes, `(n,)`, ascending.
        communities: id of each node's community, `(n,)`; it keeps its id from update to update.
        changed: ids of the communities whose members, or edges among these, are not what they were
            before the update, and of those that are new.
        ended: ids of the communities that are no more.
    """

    nodes: NDArray[Any]
    communities: Ids
    changed: tuple[int, ...]
    ended: tuple[int, ...]

    def members(self, community: int) -> list[Id]:
        """Return the nodes of a community, ascending; none if there is no such community."""
        members: list[Id] = self.nodes[self.communities == community].tolist()
        return members


@dataclass(slots=True)
class UpdatedGraph:
    """A graph, the community of each node, and what is remembered; each update replaces it."""

    graph: StandingGraph = field(default_factory=StandingGraph)
    memory: Memory | None = None
    community: Mapping[Id, int] = field(default_factory=dict)
    n_updates: int = 0

    def updated(
        self, predict_next: Callable[..., Remembered], add: Iterable[Any], remove: Iterable[Any]
    ) -> tuple[UpdatedGraph, Update]:
        """Return the graph after removals and additions, in this order, and what changed.

        Raises `BadInput` if one of them is none, or no edge is left; this graph stays as it is.
        """
        changes = [*_changes("remove", remove), *_changes("add", add)]
        graph = self.graph.copy()  # this one stays as it is if a change is refused
        _check_kinds(changes, graph)
        for change in changes:
            graph.apply(change)
        if not graph.n_edges:
            raise BadInput("the graph has no edge after this update: add one")
        start = _STEP * self.n_updates
        snapshot = graph.snapshot("updates", start, start + _STEP, "stream_icd")
        result = predict_next(snapshot, self.memory, horizon="off")
        nodes, ids = snapshot.nodes.to_pylist(), result.community_ids[result.communities]
        community = dict(zip(nodes, ids.tolist(), strict=True))
        changed, ended = _changed(self.community, community, changes)
        names = snapshot.nodes.to_numpy(zero_copy_only=False)
        after = UpdatedGraph(graph, result.memory, community, self.n_updates + 1)
        return after, Update(names, ids, tuple(sorted(changed)), tuple(sorted(ended)))


def _changed(
    before: Mapping[Id, int], after: Mapping[Id, int], changes: Iterable[Change]
) -> tuple[set[int], set[int]]:
    """Return the communities that are not what they were, and those that have ended."""
    moved = {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}
    remaining = set(after.values())
    touched = {of[node] for of in (before, after) for node in moved if node in of}
    for change in changes:
        ends = change.src if change.dst is None else change.dst
        if change.src in after and after.get(change.src) == after.get(ends):
            touched.add(after[change.src])
    return touched & remaining, set(before.values()) - remaining


def _changes(op: Op, items: Iterable[Any]) -> Iterator[Change]:
    """Yield a change for each `(src, dst)`, `(src, dst, weight)`, or id of a node."""
    for item in items:
        if _is_id(item):
            yield Change(0, 0, 0, op, _plain(item), None)
            continue
        parts = tuple(item) if isinstance(item, tuple | list) else ()
        weight = parts[2] if len(parts) == 3 and op == "add" else None
        if not (len(parts) in (2, 3) and all(map(_is_id, parts[:2]))):
            raise BadInput(
                f"{op} holds {item!r:.80}: give (src, dst) of integers or texts, with a weight if "
                "you like, or the id of a node"
            )
        if weight is not None and not (
            isinstance(weight, Real) and LEAST_WEIGHT <= float(weight) <= MOST_WEIGHT
        ):
            raise BadInput(f"{op} holds {item!r:.80}: the weight must be a number above 0")
        src, dst = map(_plain, parts[:2])
        yield Change(0, 0, 0, op, src, dst, None if weight is None else float(weight))


def _is_id(value: object) -> bool:
    return isinstance(value, str | Integral) and not isinstance(value, bool | np.bool_)


def _plain(id: Any) -> Id:
    return str(id) if isinstance(id, str) else int(id)


def _check_kinds(changes: Iterable[Change], graph: StandingGraph) -> None:
    first = next(iter(graph.nodes()), None)
    for change in changes:
        for id in (change.src, change.dst):
            first = id if first is None else first
            if id is not None and type(id) is not type(first):
                raise BadInput(
                    f"{id!r:.80} and {first!r:.80} are ids of two types: give all nodes integers, "
                    "or all of them texts"
                )
