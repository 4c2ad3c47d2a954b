"""The flow of communities, a column for each window; and their events as a list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_icd.core.events import CHANGES, CommunityEvent
from stream_icd.interfaces.view.data.series import SeenWindow, for_pairs
from stream_icd.methods.tracking.confirmation import held_for
from stream_icd.methods.tracking.identities import NodePartition
from stream_icd.methods.tracking.sentences import certainty as how_sure
from stream_icd.methods.tracking.sentences import sentence, without_consequences

_OTHERS = -1  # stands for all communities that have no band of their own


class _Zoom(NamedTuple):
    """Which bands there are: on a level, and of one band on a level above it."""

    above: int = 0  # how many levels above the communities; 0: these
    inside: tuple[int, int] | None = None  # how many levels above, and the id there; None: all

    def bands(self, window: SeenWindow) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the band of each community of a window, (K,), and which of these are shown."""
        shown = np.ones(window.n_communities, np.bool_)
        if self.inside is not None:
            shown = window.bands(self.inside[0]) == self.inside[1]
        return window.bands(self.above), shown

    def sizes(self, window: SeenWindow) -> dict[int, int]:
        """Return how many members each band of a window has."""
        if self == _WHOLE:
            return window.sizes_by_id
        bands, shown = self.bands(window)
        ids, place = np.unique(bands[shown], return_inverse=True)
        sizes = np.bincount(place, window.sizes[shown]).astype(np.int64)
        return dict(zip(ids.tolist(), sizes.tolist(), strict=True))


_WHOLE = _Zoom()

_Ways = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _spread(windows: Sequence[SeenWindow], columns: int) -> list[SeenWindow]:
    """Return some `columns` windows: every 1st, 2nd, 4th, 8th…, and the newest.

    They are chosen by their numbers, so that a new window does not choose others.
    """
    stride = 1
    while len(windows) > stride * columns:
        stride *= 2
    return [window for window in windows if window.number % stride == 0 or window is windows[-1]]


def most_members(windows: Sequence[SeenWindow], most: int, zoom: _Zoom = _WHOLE) -> list[int]:
    """Return the communities to show, largest first: of all windows, and of each part of them.

    Half of them have the most members in all windows together. The others are, in turn, the largest
    of each quarter of the windows, so that no time is without a band after all has changed.
    """
    chosen = dict.fromkeys(_ranked(windows, zoom)[: most - most // 2])
    quarter = max(1, -(-len(windows) // 4))
    starts = range(0, len(windows), quarter)
    parts = [iter(_ranked(windows[at : at + quarter], zoom)) for at in starts]
    while parts and len(chosen) < most:
        part = parts.pop(0)
        largest = next((community for community in part if community not in chosen), None)
        if largest is not None:
            chosen[largest] = None
            parts.append(part)
    return list(chosen)


def _ranked(windows: Sequence[SeenWindow], zoom: _Zoom) -> list[int]:
    totals: Counter[int] = Counter()
    for window in windows:
        totals.update(zoom.sizes(window))
    return sorted(totals, key=lambda community: (-totals[community], community))


def flow(
    windows: Sequence[SeenWindow],
    columns: int,
    most: int,
    followed: Collection[int] = (),
    above: int = 0,
    inside: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Return the bands and streams to draw.

    Args:
        windows: in time order; some `columns` of them are drawn (`_spread`).
        most: maximum number of communities with a band of their own.
        followed: communities that have a band whatever their size.
        above: how many levels above the communities the bands are; 0: they are these.
        inside: how many levels above, and the id there: only bands in that one.

    Returns:
        `shown`: ids of the bands, ascending, so that bands do not change places; `columns`: sizes
        of the bands of each window; `_moves`: between each column and the next one, `[from, to,
        nodes]`, with `_OTHERS` for communities without a band; `levels`: how many there are above.
    """
    windows, zoom = _spread(windows, columns), _Zoom(above, inside)
    if above:
        followed = ()
    ranked = most_members(windows, most + len(followed), zoom)
    largest = [community for community in ranked if community not in followed]
    shown = sorted({*followed, *largest[: max(0, most - len(followed))]})
    return {
        "shown": shown,
        "columns": [_column(window, shown, zoom) for window in windows],
        "moves": [_moves(before, after, shown, zoom) for before, after in pairwise(windows)],
        "levels": max((len(window.levels) for window in windows), default=0),
        "above": above,
    }


def _column(window: SeenWindow, shown: Sequence[int], zoom: _Zoom = _WHOLE) -> dict[str, Any]:
    """Return a window's bands: `sizes` in the order of `shown`, and the size of all others."""
    sizes = zoom.sizes(window)
    n_nodes = sum(sizes.values())
    bands = [[community, sizes[community]] for community in shown if community in sizes]
    return {
        "number": window.number,
        "snapshot": window.result.snapshot_id,
        "start": window.result.window.start.isoformat(),
        "model": window.result.model,
        "k": len(sizes),
        "nodes": n_nodes,
        "missed": window.tracking.missed,
        "sizes": bands,
        "others": n_nodes - sum(size for _, size in bands),
        "marks": [] if zoom.above else _marks(window, shown),
    }


def _marks(window: SeenWindow, shown: Sequence[int]) -> list[dict[str, Any]]:
    if window.kinds.isdisjoint(CHANGES):
        return []
    with_a_band = set(shown)
    return [
        {"kind": event.kind, "id": event.community, **_certainty(event, n_windows)}
        for event, n_windows in _causes(window, frozenset(CHANGES))
        if event.community in with_a_band
    ]


def _causes(window: SeenWindow, kinds: frozenset[str]) -> list[tuple[CommunityEvent, int]]:
    """Return events of these kinds without those that another one causes, and how long each held.

    A birth that a split causes is left out wherever the split is looked at, too.
    """
    n_windows = dict(window.held_events(kinds))
    return [(event, n_windows[event]) for event in without_consequences(n_windows)]


def _moves(
    before: SeenWindow, after: SeenWindow, shown: Sequence[int], zoom: _Zoom = _WHOLE
) -> list[list[int]]:
    """Return how many nodes moved from each band to each band, `[from, to, nodes]`."""
    old, new, counts = _ways(before, after)
    if zoom != _WHOLE:
        bands_before, shown_before = zoom.bands(before)
        bands_after, shown_after = zoom.bands(after)
        old, new = np.searchsorted(before.ids, old), np.searchsorted(after.ids, new)
        inside = shown_before[old] & shown_after[new]
        old, new = bands_before[old][inside], bands_after[new][inside]
        counts = counts[inside]
    totals: Counter[tuple[int, int]] = Counter()
    old, new = (np.where(np.isin(ids, shown), ids, _OTHERS) for ids in (old, new))
    for a, b, n in zip(old.tolist(), new.tolist(), counts.tolist(), strict=True):
        totals[a, b] += n
    return [[a, b, n] for (a, b), n in sorted(totals.items())]


@for_pairs
def _ways(before: SeenWindow, after: SeenWindow) -> _Ways:
    """Return how many nodes moved from each community to each: old id, new id, nodes."""
    old, new = NodePartition.unpacked(before.members), NodePartition.unpacked(after.members)
    pairs = old.overlaps(new)
    return old.names[pairs.old], new.names[pairs.new], pairs.shared


def event_list(
    windows: Sequence[SeenWindow],
    kinds: frozenset[str],
    community: int | None,
    limit: int,
    lasting: int = 0,
    least_bits: float = -inf,
) -> dict[str, Any]:
    """Return at most `limit` events of these kinds, newest window first.

    Args:
        community: only events that this community takes part in.
        lasting: only events that have held for so many later windows.
        least_bits: only events of at least this strength; one without a strength counts as 0.

    Returns:
        `events`; `hidden`: how many events do not last, or are not strong enough; `until`: the
        number of the oldest window that was looked through, or None if all of them were; and
        `names`, of the communities that take part, as `names_in`.
    """
    rows: list[dict[str, Any]] = []
    hidden, until = 0, None
    neighbours = dict(pairwise(reversed(windows)))
    ends = {window.number: window.result.window.end for window in windows}
    for window in reversed(windows):
        if len(rows) >= limit:
            until = window.number
            break
        if not kinds & window.kinds:
            continue
        teller = _Teller(window, neighbours.get(window), ends)
        for event, n_windows in _causes(window, kinds):
            if community is None or event.concerns(community):
                strong = (event.bits or 0) >= least_bits
                if strong and _certainty(event, n_windows)["lasted"] >= lasting:
                    rows.append(teller.row(event, n_windows))
                else:
                    hidden += 1
    shown = rows[:limit]
    involved = {id for row in shown for id in (row["id"], *row["parents"], *row["children"])}
    names = names_in(windows, involved)
    return {"events": shown, "hidden": hidden, "until": until, "names": names}


def names_in(
    windows: Sequence[SeenWindow], communities: Collection[int]
) -> dict[str, dict[str, str]]:
    """Return the last name of each community in these windows, by id, if it has one."""
    missing, shown = set(communities), dict[str, dict[str, str]]()
    for window in reversed(windows):
        names = window.names.names
        for community in missing & names.keys():
            name = names[community]
            shown[str(community)] = {
                "text": str(name),
                "brief": name.briefly(),
                "attribute": name.attribute,
                "value": name.values[0][0],
            }
        missing -= names.keys()
        if not missing:
            break
    return shown


def _certainty(event: CommunityEvent, n_windows: int) -> dict[str, Any]:
    """Return how real an event is: strength, windows for which it lasted, and whether it ended."""
    lasted, undone = held_for(n_windows)
    return {"bits": event.bits, "lasted": lasted, "undone": undone}


class _Teller:
    def __init__(
        self, window: SeenWindow, before: SeenWindow | None, ends: Mapping[int, datetime]
    ) -> None:
        self._window = window
        self._ends = ends
        self._sizes_before = {} if before is None else before.sizes_by_id
        self._sizes = self._sizes_before | window.sizes_by_id
        names_before = {} if before is None else before.names.names
        self._names = {**names_before, **window.names.names}

    def row(self, event: CommunityEvent, n_windows: int) -> dict[str, Any]:
        window, sure = self._window, _certainty(event, n_windows)
        result = window.result
        last = self._ends.get(window.number + sure["lasted"], result.window.end)
        lasted = last - result.window.end
        return {
            "number": window.number,
            "snapshot": result.snapshot_id,
            "start": result.window.start.isoformat(),
            "kind": event.kind,
            "id": event.community,
            "size": event.size,
            "size_before": event.size_before,
            "parents": list(event.parents),
            "children": list(event.children),
            "sentence": sentence(event, self._called, self._sizes_before, self._sizes),
            "sure": how_sure(event, lasted, undone=sure["undone"]),
            **sure,
        }

    def _called(self, community: int) -> str:
        name = self._names.get(community)
        return f"community {community}" if name is None else f"{name.briefly()} · {community}"
