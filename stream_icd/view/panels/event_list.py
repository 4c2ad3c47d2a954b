"""The events of a series as a list, newest first, filtered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stream_icd.events import CommunityEvent
from stream_icd.view.data.window import SeenWindow


def event_list(
    windows: Sequence[SeenWindow],
    kinds: frozenset[str],
    community: int | None,
    limit: int,
) -> dict[str, Any]:
    """Return at most `limit` events of these kinds, newest window first.

    Args:
        community: only events that this community takes part in.

    Returns:
        `events`, and `until`: the number of the oldest window that was looked through, or None if
        all of them were.
    """
    rows: list[dict[str, Any]] = []
    for one in reversed(windows):
        if rows and len(rows) >= limit:
            return {"events": rows[:limit], "until": one.number}
        if kinds & one.kinds:
            rows += [_row(one, event) for event in _chosen(one, kinds, community)]
    return {"events": rows[:limit], "until": None}


def _chosen(
    one: SeenWindow, kinds: frozenset[str], community: int | None
) -> Iterator[CommunityEvent]:
    for event in one.events:
        if event.kind in kinds and (community is None or event.concerns(community)):
            yield event


def _row(one: SeenWindow, event: CommunityEvent) -> dict[str, Any]:
    return {
        "number": one.number,
        "snapshot": one.result.snapshot_id,
        "end": one.result.window.end.isoformat(),
        "kind": event.kind,
        "id": event.community,
        "size": event.size,
        "size_before": event.size_before,
        "overlap": event.overlap,
        "parents": list(event.parents),
        "children": list(event.children),
        "away": event.away,
    }
