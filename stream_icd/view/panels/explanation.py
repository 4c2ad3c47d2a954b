"""What happened around a node, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from stream_icd.names.names import Name
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.explain import Explanation, explain, window_weights
from stream_icd.view.data.window import SeenWindow

MOST_GRAPHS = 12
"""Graphs of the newest windows that are read for one explanation."""
LOOKED_BACK = 400
"""Windows in which the community before is sought."""


def explained(
    windows: Sequence[SeenWindow], node: str, read: Callable[[SeenWindow], Snapshot]
) -> tuple[Explanation, dict[int, Name]]:
    """Explain the community of a node in the newest of some windows, and name communities.

    Raises:
        StreamIcdError: the graph of a window cannot be read.
    """
    newest = windows[-1]
    horizon = newest.result.horizon or 1.0
    asked = list(reversed(windows))[: len(window_weights(horizon, MOST_GRAPHS))]
    tracked = [one.tracked(events=False) for one in windows[-LOOKED_BACK:]]
    found = explain(node, tracked, [read(one) for one in asked], horizon)
    names: dict[int, Name] = {}
    for one in windows[-LOOKED_BACK:]:
        names |= one.known.names
    return found, names


def as_answer(found: Explanation, names: dict[int, Name]) -> dict[str, Any]:
    """Return an explanation as the page shows it: `sentences`, then the numbers."""
    words = {community: str(name) for community, name in names.items()}
    row = asdict(found)
    dates = {"at": found.at.isoformat(), "reach": found.reach.isoformat()}
    left = None if found.left is None else found.left.isoformat()
    return {**row, **dates, "left": left, "sentences": list(found.sentences(words))}
