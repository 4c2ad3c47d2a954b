"""Names of communities in what is followed, from a table of attributes of their nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_icd.cli.subscribe.shapes import Item, Shape
from stream_icd.communities import Communities
from stream_icd.errors import BadSettings
from stream_icd.events import CommunityEvents
from stream_icd.names.names import Naming
from stream_icd.printable import say
from stream_icd.subscribers.subscribe import NodeChange

SHOWN = 3
"""How many names stand in the line of a result, those of its largest communities."""

MOST_GRAPHS = 1000
"""Graphs whose names are kept until their next window: those heard of last."""

Names = Mapping[int, str]


def with_names(shape: Shape[Item], naming: Naming, *, of_one_graph: bool) -> Shape[Item]:
    """Return a shape that names communities: in its lines, as `names` in JSON, as column `name`.

    The names that a tracker gave to events are replaced. It is an error if the attributes name
    nodes by ids of another type than the one graph that is followed. Of several graphs, the others
    have no names.
    """
    last = _LastNames(naming, of_one_graph=of_one_graph)

    def lines(one: Item) -> Iterator[str]:
        said = last.of_lines(one)
        for line in shape.lines(one):
            yield f"{line}  {next(said, '')}".rstrip()

    def document(one: Item) -> dict[str, Any]:
        names = {str(community): name for community, name in last.of(one).items()}
        return {**shape.document(one), "names": names}

    def table(one: Item) -> pa.Table:
        rows = shape.table(one)
        names, of_rows = last.of(one), rows[_named_column(one, rows)].to_pylist()
        column = pa.array([names.get(community) for community in of_rows], pa.string())
        there = [name for name in rows.column_names if name != "name"]
        return rows.select(there).append_column("name", column)

    heading = f"{shape.heading}  name"
    return Shape(heading, lines, document, table)


def _named_column(one: Any, rows: pa.Table) -> str:
    """Return the column whose communities are named."""
    if isinstance(one, Communities):
        return "community" if one.community_ids is None else "community_id"
    return "after" if "after" in rows.column_names else "community"


class _LastNames:
    """The last name of each community, also of one that has ended."""

    def __init__(self, naming: Naming, *, of_one_graph: bool) -> None:
        self._naming = naming
        self._of_one_graph = of_one_graph
        self._warned = False
        # snapshot, its names, those before
        self._last: OrderedDict[str, tuple[str, Names, Names]] = OrderedDict()

    def of(self, one: Any) -> Names:
        """Return the names of the communities of a result, and of the result before it."""
        snapshot, now, before = self._last.get(one.graph, ("", {}, {}))
        if snapshot != one.snapshot_id:
            before, now = now, self._found(one)
            self._last[one.graph] = one.snapshot_id, now, before
            self._last.move_to_end(one.graph)
            if len(self._last) > MOST_GRAPHS:
                self._last.popitem(last=False)
        return {**before, **now}

    def of_lines(self, one: Any) -> Iterator[str]:
        """Yield what is added to each line of a result."""
        names = self.of(one)
        if isinstance(one, Communities):
            ids, sizes = np.unique(_assignment(one)[1], return_counts=True)
            largest = ids[np.argsort(-sizes, kind="stable")].tolist()
            yield "; ".join([names[at] for at in largest if at in names][:SHOWN])
        elif isinstance(one, NodeChange):
            yield names.get(-1 if one.after is None else one.after, "")
        elif not one.late:
            yield from (names.get(event.community, "") for event in one.events)

    def _found(self, one: Any) -> Names:
        window = self._naming.window(one.graph, *_assignment(one))
        if window is not None:
            return {community: str(name) for community, name in window.names().items()}
        if (why := self._naming.other_ids) and self._of_one_graph:
            raise BadSettings(why)
        if why and not self._warned:
            say(f"no names of graph {one.graph}: {why}", err=True)
            self._warned = True
        return {}


def _assignment(
    one: Communities | CommunityEvents | NodeChange,
) -> tuple[pa.Array, NDArray[np.integer]]:
    """Return the nodes of a result, and the community of each: stable ids where there are any."""
    if isinstance(one, NodeChange):
        one = one.window_events
    if isinstance(one, CommunityEvents):
        return one.nodes, one.communities
    ids = one.ids_of_nodes
    return one.nodes, one.labels if ids is None else ids
