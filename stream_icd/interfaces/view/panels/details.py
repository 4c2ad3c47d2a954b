"""What is known of a node or a community: search, composition, legend, explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.methods.names.names import Naming
from stream_icd.methods.tracking.explain import Explanation, explain, window_weights
from stream_icd.methods.tracking.explain_community import CommunityExplanation, explain_community
from stream_icd.methods.tracking.packed import unpacked

_MOST_COLOURS = 9  # values with a colour of their own
_MOST_GRAPHS = 12  # graphs of the newest windows that are read for one explanation
LOOKED_BACK = 400  # windows in which the community before is sought


def names_like(window: SeenWindow, beginning: str, limit: int) -> list[str]:
    """Return at most `limit` nodes whose names begin with that text, in ascending order."""
    import pyarrow.compute as pc

    names = pc.cast(unpacked(window.members)[0], pa.large_utf8())
    chosen: list[str] = names.filter(pc.starts_with(names, beginning)).slice(0, limit).to_pylist()
    return chosen


def composition(window: SeenWindow, community: int, naming: Naming | None) -> dict[str, Any]:
    """Return what a community of a window is made of, by attribute."""
    nodes, ids = unpacked(window.members)
    named = None if naming is None else naming.window(window.result.graph, nodes, ids)
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
    window: SeenWindow,
    attribute: str,
    naming: Naming | None,
    coloured: Sequence[str],
    recent: Sequence[SeenWindow],
) -> dict[str, Any]:
    """Return how many nodes of a window have each value of an attribute that has a colour.

    `others`: nodes with another value; `unknown`: with none.

    Args:
        coloured: the values that have had a colour so far.
        recent: while there are colours left, the most frequent values of these windows get them.
    """
    colours = dict.fromkeys(coloured)
    for earlier in reversed(recent):
        if len(colours) >= _MOST_COLOURS:
            break
        counts = _counted(earlier, attribute, naming)
        values = [value for value in counts if value is not None]
        colours |= dict.fromkeys(sorted(values, key=lambda value: (-counts[value], value)))
    counts = _counted(window, attribute, naming)
    unknown = counts.pop(None, 0)
    shown = [
        {"value": value, "nodes": counts.pop(value, 0)} for value in list(colours)[:_MOST_COLOURS]
    ]
    return {
        "number": window.number,
        "by": attribute,
        "values": shown,
        "others": counts.total(),
        "unknown": unknown,
    }


def _counted(window: SeenWindow, attribute: str, naming: Naming | None) -> Counter[str | None]:
    nodes, _ = unpacked(window.members)
    values = None if naming is None else naming.values(window.result.graph, nodes, attribute)
    return Counter(values or [])


def explained(
    windows: Sequence[SeenWindow], node: str, read: Callable[[SeenWindow], Snapshot]
) -> tuple[Explanation, dict[int, str]]:
    """Explain the community of a node in the newest of some windows, and name communities."""
    newest, now = windows[-1], windows[-1].community_of(node)
    earlier = reversed(windows[-LOOKED_BACK:-1])
    before = next((w for w in earlier if w.community_of(node) not in (None, now)), None)
    # The sentences are about these alone, and each of the others takes milliseconds to unpack.
    mentioned = [newest] if before is None else [before, newest]
    explanation = explain(
        node,
        [window.tracked(events=False) for window in mentioned],
        _recent_graphs(windows, read),
        newest.result.horizon or 1.0,
        newest.result.horizon_for,
    )
    return explanation, _names(windows)


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
    newest = windows[-1].result
    having = [window for window in windows[-LOOKED_BACK:] if community in window.ids]
    mentioned = {*having[:1], *having[-2:], *windows[-2:]}
    explanation = explain_community(
        community,
        [window.tracked(events=False) for window in windows if window in mentioned],
        _recent_graphs(windows, read),
        newest.horizon or 1.0,
        newest.horizon_for,
        after=None if after is None else after.tracked(events=False),
    )
    return explanation, _names(windows if after is None else [after, *windows[-LOOKED_BACK + 1 :]])


def _recent_graphs(
    windows: Sequence[SeenWindow], read: Callable[[SeenWindow], Snapshot]
) -> list[Snapshot]:
    """Return the graphs of the newest windows whose edges count, the newest first."""
    horizon = windows[-1].result.horizon or 1.0
    n_graphs = len(window_weights(horizon, _MOST_GRAPHS))
    return [read(window) for window in reversed(windows[-n_graphs:])]


def _names(windows: Sequence[SeenWindow]) -> dict[int, str]:
    return {
        community: str(name)
        for window in windows[-LOOKED_BACK:]
        for community, name in window.names.names.items()
    }
