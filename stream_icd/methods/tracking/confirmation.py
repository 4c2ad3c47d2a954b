"""Which events last: a merger that is undone in the next window was perhaps none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.core.node_ids import places

CONFIRMED = 3
"""An event is confirmed when it has lasted for so many windows, unless others are asked for."""


def still_hold(
    events: Sequence[CommunityEvent],
    before: CommunityEvents | None,
    at: CommunityEvents,
    later: CommunityEvents,
) -> list[bool]:
    """Return whether each event of a window still holds in a later one.

    - *merged*: most of the members of each parent are in one and the same community;
    - *split*: most of the members of each child are in a community of their own;
    - *born*, *returned*, *died*: the community exists, or does not;
    - *grown*, *shrunk*: its size is nearer to that after the event than to that before, or beyond;
    - *continued*: always.

    `before`: the window before the event; None if it is not known: then mergers hold while the
    community exists.
    """
    there, sizes = ids_in(later, at.nodes), Counter(later.communities.tolist())
    kinds = {event.kind for event in events}
    merged: Mapping[tuple[int, ...], int] = {}
    if before is not None and "merged" in kinds:
        merged = _where_most_are(there, at.communities, ids_in(before, at.nodes))
    split = _where_most_are(there, at.communities) if "split" in kinds else {}

    def holds(event: CommunityEvent) -> bool:
        size = sizes[event.community]
        match event.kind:
            case "merged" if before is not None:
                came = ((event.community, parent) for parent in event.parents)
                return len({merged[part] for part in came if part in merged}) <= 1
            case "split":
                where = [split[child,] for child in event.children if (child,) in split]
                return len(set(where)) == len(where)
            case "born" | "returned" | "merged":
                return size > 0
            case "died":
                return size == 0
            case "grown":
                return 2 * size >= event.size_before + event.size
            case "shrunk":
                return 2 * size <= event.size_before + event.size
            case _:
                return True

    return [holds(event) for event in events]


def lasting_events(windows: Sequence[CommunityEvents], lasting: int) -> CommunityEvents:
    """Return the window that is `lasting` before the last one, with the events that held since."""
    at = len(windows) - 1 - lasting
    window, before = windows[at], windows[at - 1] if at else None
    events = window.events
    for later in windows[at + 1 :]:
        hold = still_hold(events, before, window, later)
        events = tuple(event for event, holds in zip(events, hold, strict=True) if holds)
    return replace(window, events=events)


def _where_most_are(there: Ids, *groups: Ids) -> dict[tuple[int, ...], int]:
    """Return where most nodes of each group are later; groups that are gone are left out.

    there, groups: `(n,)` of each node; a group is one id of each of `groups`.
    """
    known = there != NOBODY
    names = np.stack([*groups, there])[:, known]
    names = names[:, np.lexsort(names[::-1])]
    starts = np.flatnonzero((np.diff(names, prepend=NOBODY - 1) != 0).any(axis=0))
    most: dict[tuple[int, ...], tuple[int, int]] = {}
    counts = np.diff(starts, append=names.shape[1]).tolist()
    for (*group, community), count in zip(names[:, starts].T.tolist(), counts, strict=True):
        if count > most.get(tuple(group), (0, 0))[0]:  # of equal ones, the lowest id
            most[tuple(group)] = count, community
    return {group: community for group, (_, community) in most.items()}


def ids_in(window: CommunityEvents, nodes: pa.Array) -> Ids:
    """Return the community of each node in a window, `(n,)`; `NOBODY` if it is not there."""
    ids: Ids = np.append(window.communities, NOBODY)[places(nodes, window.nodes)]
    return ids
