"""Words for people: what happened to communities, how sure that is, when, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from datetime import time as clock_time
from itertools import chain

from stream_icd.core.events import CommunityEvent

_MOST_NAMED = 3
_STILL = {
    "merged": "together",
    "split": "apart",
    "born": "there",
    "returned": "there",
    "died": "gone",
}
_UNITS = (
    ("day", timedelta(days=1)),
    ("hour", timedelta(hours=1)),
    ("minute", timedelta(minutes=1)),
)

_MIDNIGHT = clock_time()

_Called = Callable[[int], str]
_Sizes = Mapping[int, int]


def without_consequences(events: Iterable[CommunityEvent]) -> list[CommunityEvent]:
    """Return the events without births that another one causes.

    What a split community becomes is born with it, and so is a merger that is none of its parts:
    one event, not two.
    """
    events = list(events)
    caused = set(chain.from_iterable(e.children for e in events if e.kind == "split"))
    caused |= {event.community for event in events if event.kind == "merged"}
    return [
        event
        for event in events
        if event.kind not in ("born", "returned") or event.community not in caused
    ]


def sentence(event: CommunityEvent, called: _Called, before: _Sizes, now: _Sizes) -> str:
    """Return what happened, in words.

    Args:
        called: what a community is called, by id.
        before, now: the number of nodes of each community in the window before, which is that of a
            part of a merger, and in that of the event. Sizes that are not there are left out.
    """
    me = called(event.community)
    # A community that took part in its own merger or split is the one that the sentence is about.
    relatives = (*event.parents, *event.children)
    others = [community for community in relatives if community != event.community]
    parts = _listed(others, called, before if event.kind == "merged" else now)
    match event.kind:
        case "split" if event.size and others:
            return f"{parts} left {me}"
        case "split":
            return f"{me} fell apart into {parts}"
        case "merged" if event.community in event.parents:
            return f"{parts} joined {me}"
        case "merged":
            return f"{parts} became {me}"
        case "born":
            out_of = f", out of {parts}" if others else ""
            return f"{me} is new, with {_nodes(event.size)}{out_of}"
        case "returned":
            return f"{me} is back, with {_nodes(event.size)}"
        case "died":
            return f"{me} ended; it had {_nodes(event.size_before)}"
        case "grown" | "shrunk":
            how = "grew" if event.kind == "grown" else "shrank"
            return f"{me} {how} from {event.size_before:,} to {_nodes(event.size)}"
        case _:
            return f"{me} continues, with {_nodes(event.size)}"


def certainty(event: CommunityEvent, lasted: timedelta, *, undone: bool) -> str:
    """Return how strong an event is, and for how long it lasted, such as `16 bits; still apart
    31 days later`; empty if neither is known yet."""
    parts = []
    if event.bits is not None:
        bits = f"{event.bits:,.0f}"
        parts.append(f"{bits} bit{'' if bits in ('1', '-1') else 's'}")
    if undone and event.kind in ("born", "returned"):
        parts.append(f"there for {_span(lasted)}" if lasted else "gone in the next window")
    elif undone:
        parts.append(f"undone after {_span(lasted)}" if lasted else "undone in the next window")
    elif lasted:
        parts.append(f"still {_STILL.get(event.kind, 'so')} {_span(lasted)} later")
    return "; ".join(parts)


def called_by(names: Mapping[int, str] | None) -> _Called:
    """Return what calls a community by its id, and its name if it has one."""

    def called(community: int) -> str:
        name = (names or {}).get(community)
        return f"community {community}" + ("" if name is None else f" ({name})")

    return called


def told(time: datetime) -> str:
    """Return a time of UTC to the minute, or as precisely as it is; the date alone at midnight."""
    if time.time() == _MIDNIGHT:
        return time.date().isoformat()
    whole = not (time.second or time.microsecond)
    return time.replace(tzinfo=None).isoformat(" ", "minutes" if whole else "auto")


def how_far_back(reach: datetime, horizon: float, horizon_for: int | None = None) -> str:
    """Say how far the memory of edges reaches back, how many windows it is worth, and since when.

    >>> how_far_back(datetime(2026, 1, 31, 12), 20, 3)
    'The memory reaches back to 2026-01-31 12:00; it is worth 20 windows, for 3 windows now.'
    """
    worth, since = (
        _windows(horizon),
        "" if horizon_for is None else f", for {_windows(horizon_for)} now",
    )
    return f"The memory reaches back to {told(reach)}; it is worth {worth}{since}."


def _windows(number: float) -> str:
    return f"{number:.3g} {'window' if number == 1 else 'windows'}"


def _span(time: timedelta) -> str:
    """Return a duration in its largest unit, rounded.

    >>> _span(timedelta(days=31)), _span(timedelta(hours=1)), _span(timedelta(minutes=100))
    ('31 days', '1 hour', '2 hours')
    """
    for name, unit in _UNITS:
        if time >= unit:
            count = round(time / unit)
            return f"{count:,} {name}{'' if count == 1 else 's'}"
    return f"{time.total_seconds():.3g} seconds"


def _nodes(n: int) -> str:
    return "1 node" if n == 1 else f"{n:,} nodes"


def _listed(communities: Sequence[int], called: _Called, sizes: _Sizes) -> str:
    named = []
    for community in communities[:_MOST_NAMED]:
        size = sizes.get(community)
        named.append(called(community) + ("" if size is None else f" ({_nodes(size)})"))
    if rest := len(communities) - len(named):
        named.append(f"{rest:,} more")
    return " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))
