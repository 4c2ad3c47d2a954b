"""The events of a series as a list, newest first, filtered; and names of their communities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from stream_icd.events import CommunityEvent
from stream_icd.names.names import Naming
from stream_icd.view.data.window import SeenWindow


def event_list(
    windows: Sequence[SeenWindow],
    kinds: frozenset[str],
    community: int | None,
    limit: int,
    lasting: int = 0,
    least_bits: float = 0,
) -> dict[str, Any]:
    """Return at most `limit` events of these kinds, newest window first.

    Args:
        community: only events that this community takes part in.
        lasting: only events that have held for so many later windows.
        least_bits: only events of at least this strength; 0: also those without a strength.

    Returns:
        `events`; `hidden`: how many events do not last, or are not strong enough; and `until`: the
        number of the oldest window that was looked through, or None if all of them were.
    """
    rows: list[dict[str, Any]] = []
    hidden = 0
    for window in reversed(windows):
        if rows and len(rows) >= limit:
            return {"events": rows[:limit], "hidden": hidden, "until": window.number}
        if not kinds & window.kinds:
            continue
        for event, held in window.held_events():
            if event.kind in kinds and (community is None or event.concerns(community)):
                row = _row(window, event, held)
                strong = not least_bits or (event.bits or 0) >= least_bits
                if strong and row["lasted"] >= lasting:
                    rows.append(row)
                else:
                    hidden += 1
    return {"events": rows[:limit], "hidden": hidden, "until": None}


def of_events(found: dict[str, Any]) -> set[int]:
    """Return the communities that take part in the events of an answer."""
    rows = found["events"]
    return {one for row in rows for one in (row["id"], *row["parents"], *row["children"])}


def names_in(
    windows: Sequence[SeenWindow], communities: Collection[int], naming: Naming | None
) -> dict[str, dict[str, str]]:
    """Return the last name of each community in these windows, by id; `{}` without attributes."""
    if naming is None:
        return {}
    missing, found = set(communities), {}
    for window in reversed(windows):
        names = window.known.names
        for community in missing & names.keys():
            name = names[community]
            found[str(community)] = {
                "text": str(name),
                "attribute": name.attribute,
                "value": name.values[0][0],
            }
        missing -= names.keys()
        if not missing:
            break
    return found


def certainty(event: CommunityEvent, held: int) -> dict[str, Any]:
    """Return how real an event is: strength, windows for which it lasted, and whether it ended."""
    lasted = held if held >= 0 else -held - 1
    return {"bits": event.bits, "lasted": lasted, "undone": held < 0}


def _row(window: SeenWindow, event: CommunityEvent, held: int) -> dict[str, Any]:
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "end": window.result.window.end.isoformat(),
        "kind": event.kind,
        "id": event.community,
        "size": event.size,
        "size_before": event.size_before,
        "overlap": event.overlap,
        "parents": list(event.parents),
        "children": list(event.children),
        "away": event.away,
        **certainty(event, held),
    }
