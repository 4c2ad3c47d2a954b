"""What is known of a node or a community: search, past, composition, explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import pyarrow as pa

from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.explain import Explanation, explain, window_weights
from stream_icd.methods.tracking.explain_community import CommunityExplanation, explain_community
from stream_icd.methods.tracking.packed import unpacked

MOST_COLOURS = 9
"""Values with a colour of their own."""
_MOST_GRAPHS = 12
"""Graphs of the newest windows that are read for one explanation."""
LOOKED_BACK = 400
"""Windows in which the community before is sought."""

Past = MutableMapping[SeenWindow, int | None]
"""The community of a node in windows; None where it is missing."""


def names_like(window: SeenWindow, beginning: str, limit: int) -> list[str]:
    """Return at most `limit` nodes whose names begin with that text, in ascending order."""
    import pyarrow.compute as pc

    names = pc.cast(unpacked(window.members)[0], pa.large_utf8())
    chosen = names.filter(pc.starts_with(names, beginning))
    return [str(name) for name in chosen.slice(0, limit).to_pylist()]


def node_past(windows: Sequence[SeenWindow], node: str, known: Past) -> dict[str, Any]:
    """Return where a node was: a span for each time that its community stayed the same.

    A span has the numbers and starts of its first and last window, and the community, or None for
    windows in which the node is missing. Before its first appearance there is no span.

    `known`: of this node; windows that are not in it are unpacked, and added.
    """
    spans: list[dict[str, Any]] = []
    seen = 0
    for window in windows:
        if window not in known:
            known[window] = window.community_of(node)
        community, number, time = known[window], window.number, window.result.window
        seen += community is not None
        last = {"to": number, "last": time.start.isoformat()}
        if spans and spans[-1]["id"] == community:
            spans[-1] |= last
        elif spans or community is not None:
            first = {"id": community, "from": number, "start": time.start.isoformat()}
            spans.append({**first, **last})
    return {"node": node, "seen": seen, "of": len(windows), "spans": spans}


def composition(window: SeenWindow, community: int, naming: Naming | None) -> dict[str, Any]:
    """Return what a community of a window is made of, by attribute."""
    graph, members = window.result.graph, unpacked(window.members)
    named = None if naming is None else naming.window(graph, *members)
    parts = {} if named is None else named.composition(community)
    shown = ("value", "members", "total", "names")
    return {
        "number": window.number,
        "community": community,
        "attributes": {
            attribute: [{name: getattr(part, name) for name in shown} for part in values]
            for attribute, values in parts.items()
        },
    }


def legend(
    window: SeenWindow, attribute: str, naming: Naming | None, chosen: Sequence[str]
) -> dict[str, Any]:
    """Return how many nodes of a window have each of the chosen values of an attribute.

    `others`: nodes with another value; `unknown`: with none.
    """
    counted = _counted(window, attribute, naming)
    unknown = counted.pop(None, 0)
    shown = [{"value": value, "nodes": counted.pop(value, 0)} for value in chosen]
    return {
        "number": window.number,
        "by": attribute,
        "values": shown,
        "others": counted.total(),
        "unknown": unknown,
    }


def coloured(
    window: SeenWindow, attribute: str, naming: Naming | None, before: Sequence[str]
) -> list[str]:
    """Return the values that have a colour: those before, and the most frequent of a window."""
    counted = _counted(window, attribute, naming)
    known = [value for value in counted if value is not None]
    by_nodes = sorted(known, key=lambda value: (-counted[value], value))
    return list(dict.fromkeys([*before, *by_nodes]))[:MOST_COLOURS]


def _counted(window: SeenWindow, attribute: str, naming: Naming | None) -> Counter[str | None]:
    nodes, _ = unpacked(window.members)
    return Counter(values_of(window.result.graph, nodes, attribute, naming) or [])


def values_of(
    graph: str, nodes: pa.Array, attribute: str, naming: Naming | None
) -> list[str | None] | None:
    """Return the value of an attribute of each node; None if the graph has no such attribute."""
    found = None if naming is None else naming.attribute(graph, nodes, attribute)
    if found is None:
        return None
    names = (*found.values, None)  # a code of -1 is unknown
    return [names[code] for code in found.codes.tolist()]


def explained(
    windows: Sequence[SeenWindow], node: str, read: Callable[[SeenWindow], Snapshot]
) -> tuple[Explanation, dict[int, str]]:
    """Explain the community of a node in the newest of some windows, and name communities."""
    newest, now = windows[-1], windows[-1].community_of(node)
    earlier = reversed(windows[-LOOKED_BACK:-1])
    before = next((one for one in earlier if one.community_of(node) not in (None, now)), None)
    told_of = [newest] if before is None else [before, newest]  # of the others, nothing is said
    tracked = [window.tracked(events=False) for window in told_of]
    return explain(node, tracked, *_looked_back(windows, read)), _names(windows)


def explained_community(
    windows: Sequence[SeenWindow],
    community: int,
    read: Callable[[SeenWindow], Snapshot],
    after: SeenWindow | None = None,
) -> tuple[CommunityExplanation, dict[int, str]]:
    """Explain a community in the newest of some windows, and name communities.

    Raises:
        BadSettings: none of the windows has the community.
        StreamIcdError: the graph of a window cannot be read.
    """
    later = None if after is None else after.tracked(events=False)
    having = [window for window in windows[-LOOKED_BACK:] if community in window.ids]
    told_of = {*having[:1], *having[-2:], *windows[-2:]}  # of the others, nothing is said
    tracked = [window.tracked(events=False) for window in windows if window in told_of]
    explanation = explain_community(community, tracked, *_looked_back(windows, read), later)
    return explanation, _names(windows if after is None else [after, *windows[-LOOKED_BACK + 1 :]])


def _looked_back(
    windows: Sequence[SeenWindow], read: Callable[[SeenWindow], Snapshot]
) -> tuple[list[Snapshot], float, int | None]:
    """Return the graphs whose edges count, of the newest windows, the horizon, and for how long."""
    newest = windows[-1].result
    horizon = newest.horizon or 1.0
    asked = list(reversed(windows))[: len(window_weights(horizon, _MOST_GRAPHS))]
    return [read(window) for window in asked], horizon, newest.horizon_for


def _names(windows: Sequence[SeenWindow]) -> dict[int, str]:
    return {
        community: str(name)
        for window in windows[-LOOKED_BACK:]
        for community, name in window.known.names.items()
    }
