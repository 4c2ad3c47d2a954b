"""Search: the nodes of a window by the beginning of their names, and the past of one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from stream_icd.view.data.window import SeenWindow, unpacked


def names_like(one: SeenWindow, beginning: str, limit: int) -> list[str]:
    """Return at most `limit` nodes whose names begin with that text, in ascending order."""
    import pyarrow.compute as pc

    names = pc.cast(unpacked(one.members)[0], pa.large_utf8())
    chosen = names.filter(pc.starts_with(names, beginning))
    return [str(name) for name in chosen.slice(0, limit).to_pylist()]


def node_past(windows: Sequence[SeenWindow], node: str) -> dict[str, Any]:
    """Return where a node was: a span for each time that its community stayed the same.

    A span has the numbers and times of its first and last window, and the community, or None for
    windows in which the node is missing. Before its first appearance there is no span.
    """
    spans: list[dict[str, Any]] = []
    seen = 0
    for one in windows:
        community = one.community_of(node)
        seen += community is not None
        if spans and spans[-1]["id"] == community:
            spans[-1] |= {"to": one.number, "end": one.result.window.end.isoformat()}
        elif spans or community is not None:
            spans.append(_span(one, community))
    return {"node": node, "seen": seen, "of": len(windows), "spans": spans}


def _span(one: SeenWindow, community: int | None) -> dict[str, Any]:
    window = one.result.window
    return {
        "id": community,
        "from": one.number,
        "to": one.number,
        "start": window.start.isoformat(),
        "end": window.end.isoformat(),
    }
