"""How long events last: a merger that is undone in the next window was perhaps none."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from stream_icd.core.arrays import NOBODY, Ids
from stream_icd.core.events import CommunityEvent, CommunityEvents
from stream_icd.methods.tracking.packed import PackedWindow

CONFIRMED = 3
"""An event is confirmed when it has lasted for so many windows, unless others are asked for."""

STEPS = (*range(1, CONFIRMED + 1), *(CONFIRMED * 2**power for power in range(1, 13)))
"""After how many windows it is noted whether events still hold: more would take more time. An event
that still holds after 12 windows is known to have lasted for so many, until 24 are there."""

MOST_WAITING = 1000
"""So many windows of all graphs wait for later ones at most; and so many graphs are known."""


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
    later_ids, sizes = later.communities_of(at.nodes), Counter(later.communities.tolist())
    kinds = {event.kind for event in events}
    merged: Mapping[tuple[int, ...], int] = {}
    if before is not None and "merged" in kinds:
        merged = _where_most_are(later_ids, at.communities, before.communities_of(at.nodes))
    split = _where_most_are(later_ids, at.communities) if "split" in kinds else {}

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


def _where_most_are(later_ids: Ids, *groups: Ids) -> dict[tuple[int, ...], int]:
    """Return where most nodes of each group are later; groups that are gone are left out.

    later_ids, groups: `(n,)` of each node; a group is one id of each of `groups`.
    """
    is_there = later_ids != NOBODY
    names = np.stack([*groups, later_ids])[:, is_there]
    names = names[:, np.lexsort(names[::-1])]
    # Before the first stands what is below any id, so that it begins a group.
    starts = np.flatnonzero((np.diff(names, prepend=NOBODY - 1) != 0).any(axis=0))
    most: dict[tuple[int, ...], tuple[int, int]] = {}
    counts = np.diff(starts, append=names.shape[1]).tolist()
    for (*group, community), count in zip(names[:, starts].T.tolist(), counts, strict=True):
        if count > most.get(tuple(group), (0, 0))[0]:  # of equal ones, the lowest id
            most[tuple(group)] = count, community
    return {group: community for group, (_, community) in most.items()}


class _Lasted(NamedTuple):
    """For how long an event has held since its window, and whether it held no longer then."""

    time: timedelta
    undone: bool


NOTHING_KNOWN = _Lasted(timedelta(), False)


@dataclass(frozen=True, slots=True, eq=False)
class FollowedEvents(CommunityEvents):
    """The events of a window, with the window before and what is known of later ones.

    Attributes:
        before: the window before in its graph; None if it is not known.
        names: those that the tracker gave to communities of both windows, by id.
        lasted: for how long events have held, by event; those of which nothing is known are left
            out.
    """

    before: CommunityEvents | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    lasted: Mapping[CommunityEvent, _Lasted] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        window: CommunityEvents,
        before: CommunityEvents | None = None,
        lasted: Mapping[CommunityEvent, _Lasted] | None = None,
    ) -> FollowedEvents:
        names = ({} if before is None else before.names_given()) | window.names_given()
        values = {
            attribute.name: getattr(window, attribute.name) for attribute in fields(CommunityEvents)
        }
        return cls(**values, before=before, names=names, lasted=lasted or {})


def followed(windows: Iterable[CommunityEvents], waiting: int) -> Iterator[FollowedEvents]:
    """Yield each window, in their order, with the one before and with how long its events held.

    A window waits until so many later ones, of any graph, are there, or no more come; with 0 it is
    yielded at once, and nothing is known of later ones.
    """
    graphs: dict[str, deque[PackedWindow]] = {}
    queue: deque[PackedWindow] = deque()
    for window in windows:
        packed = PackedWindow.of(window)
        queue.append(packed)
        if not window.late:
            of_graph = graphs[window.graph] = graphs.pop(window.graph, deque())
            if of_graph and of_graph[-1].identity()[:3] == packed.identity()[:3]:
                of_graph.pop()  # it is corrected
            of_graph.append(packed)
        # The one without a window for the longest time: a window puts its graph last.
        if len(graphs) > MOST_WAITING:
            del graphs[next(iter(graphs))]
        if len(queue) > waiting:
            yield _followed(queue.popleft(), graphs)
    while queue:
        yield _followed(queue.popleft(), graphs)


def _followed(window: PackedWindow, graphs: Mapping[str, deque[PackedWindow]]) -> FollowedEvents:
    """Return the oldest window that waits; forget those that are older than the one before it."""
    of_graph = graphs.get(window.about.graph, deque())
    if window not in of_graph:  # it is late, or another revision took its place
        return FollowedEvents.of(window.whole())
    # Older windows will not be asked for again: what waits must not grow with the stream.
    while of_graph[0] is not window and of_graph[1] is not window:
        of_graph.popleft()
    at = int(of_graph[0] is not window)
    before = of_graph[0].whole() if at else None
    return FollowedEvents.of(window.whole(), before, _lasted(list(of_graph), at))


def _lasted(windows: Sequence[PackedWindow], at: int) -> dict[CommunityEvent, _Lasted]:
    """Return for how long each event of a window is known to have held in the later ones."""
    window, former = windows[at].whole(), windows[at - 1].without_events() if at else None
    windows_held_by_event = (0,) * len(window.events)
    for earlier, steps in zip((0, *STEPS), STEPS, strict=False):
        if at + steps >= len(windows) or earlier not in windows_held_by_event:
            break
        hold = still_hold(window.events, former, window, windows[at + steps].without_events())
        windows_held_by_event = noted(windows_held_by_event, earlier, steps, hold)
    times = {}
    for event, windows_held in zip(window.events, windows_held_by_event, strict=True):
        if windows_held:
            count, undone = held_for(windows_held)
            end = windows[at + count].about.window.end
            times[event] = _Lasted(end - window.window.end, undone)
    return times


def noted(
    windows_held: Sequence[int], earlier: int, steps: int, hold: Sequence[bool]
) -> tuple[int, ...]:
    """Return for how many later windows each event has held, with what a later one shows.

    Args:
        windows_held: what was known; below 0: it was undone by that later window.
        earlier, steps: one of `STEPS`, after 0 or the one before it. Anything new is noted only of
            events that held after `earlier` windows, or that an older revision of the later window
            was asked about.
        hold: whether each event holds in the later window.
    """
    waiting = {earlier, steps, -steps}
    return tuple(
        (steps if holds else -steps) if had in waiting else had
        for had, holds in zip(windows_held, hold, strict=True)
    )


def held_for(windows_held: int) -> tuple[int, bool]:
    """Return for how many windows an event is known to have held, and whether it is undone."""
    if windows_held >= 0:
        return windows_held, False
    return (STEPS[STEPS.index(-windows_held) - 1] if windows_held < -1 else 0), True


def confirmed(windows: Iterable[CommunityEvents], lasting: int) -> Iterator[FollowedEvents]:
    """Yield each window when `lasting` later ones are there, with the events that held in all.

    Windows come in the order of their graph; `late` ones are left out, and a revision of the last
    one replaces it. The last windows of a graph are never yielded: nobody knows yet what lasts.
    """
    graphs: dict[str, deque[PackedWindow]] = {}
    for window in windows:
        if window.late:
            continue
        of_graph = graphs.setdefault(window.graph, deque(maxlen=lasting + 2))
        if of_graph and of_graph[-1].identity()[:3] == window.identity()[:3]:
            of_graph[-1] = PackedWindow.of(window)
            continue
        of_graph.append(PackedWindow.of(window))
        if len(of_graph) > lasting:
            whole = [packed.whole() for packed in of_graph]
            chosen = lasting_events(whole, lasting)
            time = window.window.end - chosen.window.end
            before = whole[0] if len(whole) == lasting + 2 else None
            yield FollowedEvents.of(
                chosen, before, dict.fromkeys(chosen.events, _Lasted(time, False))
            )
