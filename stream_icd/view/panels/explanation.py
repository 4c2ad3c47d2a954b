"""What happened around a node, or what holds a community together, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from stream_icd.events import CommunityEvents
from stream_icd.names.names import Name
from stream_icd.snapshot import Snapshot
from stream_icd.tracking.explain import Explanation, explain, window_weights
from stream_icd.tracking.explain_community import CommunityExplanation, explain_community
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
    return explain(node, *_evidence(windows, read)), _names(windows)


def explained_community(
    windows: Sequence[SeenWindow],
    community: int,
    read: Callable[[SeenWindow], Snapshot],
    after: SeenWindow | None = None,
) -> tuple[CommunityExplanation, dict[int, Name]]:
    """Explain a community in the newest of some windows, and name communities.

    Args:
        after: the window after these.

    Raises:
        BadSettings: none of the windows has the community.
        StreamIcdError: the graph of a window cannot be read.
    """
    later = None if after is None else after.tracked(events=False)
    found = explain_community(community, *_evidence(windows, read), later)
    return found, _names(windows if after is None else [after, *windows[-LOOKED_BACK + 1 :]])


def _evidence(
    windows: Sequence[SeenWindow], read: Callable[[SeenWindow], Snapshot]
) -> tuple[list[CommunityEvents], list[Snapshot], float]:
    """Return the windows to look back on, the graphs whose edges count, and the horizon."""
    horizon = windows[-1].result.horizon or 1.0
    asked = list(reversed(windows))[: len(window_weights(horizon, MOST_GRAPHS))]
    tracked = [one.tracked(events=False) for one in windows[-LOOKED_BACK:]]
    return tracked, [read(one) for one in asked], horizon


def _names(windows: Sequence[SeenWindow]) -> dict[int, Name]:
    """Return the last name of each community."""
    names: dict[int, Name] = {}
    for one in windows[-LOOKED_BACK:]:
        names |= one.known.names
    return names


def as_answer(found: Explanation | CommunityExplanation, names: dict[int, Name]) -> dict[str, Any]:
    """Return an explanation as the page shows it: `sentences`, then the numbers."""
    words = {community: str(name) for community, name in names.items()}
    row = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(found).items()
    }
    return {**row, "sentences": list(found.sentences(words))}
