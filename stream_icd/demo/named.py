"""The story of a real stream: its communities by name, and the events that lasted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from stream_icd.demo.alluvial import COLOURS, draw_bands
from stream_icd.events import CommunityEvent, CommunityEvents
from stream_icd.names.attributes import Attributes
from stream_icd.names.names import named
from stream_icd.tracking.confirmation import CONFIRMED, lasting_events

MOST_COLUMNS = 30
MOST_EVENTS = 10
INK, QUIET = "#222222", "#5f6368"
DPI = 120

Names = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class NamedEvent:
    """A merger or split that lasted, its window, and the names of communities by id."""

    window: CommunityEvents
    event: CommunityEvent
    names: Names

    def __str__(self) -> str:
        def said(community: int) -> str:
            return f"[{self.names.get(community, f'community {community}')}]"

        event = self.event
        others = [one for one in (*event.parents, *event.children) if one != event.community]
        with_them = ", ".join(map(said, others[:3])) + (", …" if len(others) > 3 else "")
        merged = f"{said(event.community)} takes in {with_them}"
        split = f"{with_them} {'leaves' if len(others) == 1 else 'leave'} {said(event.community)}"
        what = merged if event.kind == "merged" else split
        return f"{self.window.window.start:%Y-%m-%d}  {what} ({event.bits or 0:,.0f} bits)"


def strongest_events(
    windows: Sequence[CommunityEvents], attributes: Attributes
) -> list[NamedEvent]:
    """Return the strongest mergers and splits that lasted, one a window, in time order."""
    best: dict[int, CommunityEvent] = {}
    for at in range(1, len(windows) - CONFIRMED):
        lasting = lasting_events(windows[at - 1 : at + CONFIRMED + 1], CONFIRMED)
        known = [
            event for event in lasting.events if event.kind in ("merged", "split") and event.bits
        ]
        if known:
            best[at] = max(known, key=lambda event: event.bits or 0.0)
    chosen = sorted(sorted(best, key=lambda at: -(best[at].bits or 0.0))[:MOST_EVENTS])
    return [
        NamedEvent(windows[at], best[at], _names(windows[at - 1 : at + 1], attributes))
        for at in chosen
    ]


def draw_story(
    windows: Sequence[CommunityEvents],
    attributes: Attributes,
    events: Sequence[NamedEvent],
    path: Path,
) -> None:
    """Write the picture: the largest communities over all windows, and the events below."""
    figure = Figure(figsize=(14, 9), layout="constrained")
    FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1, height_ratios=(2.6, 1))
    places = np.unique(np.linspace(0, len(windows) - 1, MOST_COLUMNS).round().astype(int)).tolist()
    columns = [windows[at] for at in places]
    names = _names(columns, attributes)
    shown = _largest(columns, names)
    draw_bands(above, columns, dict(zip(shown, COLOURS, strict=False)), names=names)
    ends = [f"{column.window.start:%Y-%m}" for column in columns]
    every = max(1, len(columns) // 10)
    above.set_xticks(range(0, len(columns), every), ends[::every])
    above.set_ylabel("nodes", color=QUIET)
    above.spines[["top", "right"]].set_visible(False)
    across = range(len(places))
    order = {one.snapshot_id: at for at, one in enumerate(windows)}
    places_of_events = [float(np.interp(order[one.window.snapshot_id], places, across))
                        for one in events]  # fmt: skip
    rows = 0
    for number, at in enumerate(places_of_events, start=1):
        above.axvline(at, color=INK, linewidth=0.8, linestyle=":")
        crowded = sum(0 <= at - other < 0.4 for other in places_of_events[: number - 1])
        rows = max(rows, crowded)
        above.annotate(
            str(number), (at, 1), (0, 2 + 12 * crowded), above.get_xaxis_transform(),
            "offset points", ha="center", color=INK,
        )  # fmt: skip
    last = windows[-1].window
    above.set_title(
        f"{windows[-1].graph}: communities by {' and '.join(c.name for c in attributes.columns)}, "
        f"{windows[0].window.start:%Y-%m-%d} to {last.start:%Y-%m-%d}, and "
        f"{len(events)} events that lasted",
        loc="left", color=INK, fontsize=15, pad=20 + 12 * rows, parse_math=False,
    )  # fmt: skip
    below.axis("off")
    for line, event in enumerate(events):
        text = f"{line + 1:>2}  {event}"
        below.text(0, 1 - line / MOST_EVENTS, text, color=INK, fontsize=11, va="top",
                   transform=below.transAxes, parse_math=False)  # fmt: skip
    figure.savefig(path, dpi=DPI)


def _names(windows: Sequence[CommunityEvents], attributes: Attributes) -> dict[int, str]:
    """Return the last name of each community, by its id."""
    names: dict[int, str] = {}
    for window in windows:
        found = named(window.nodes, window.communities, attributes).names()
        names |= {community: str(name) for community, name in found.items()}
    return names


def _largest(columns: Sequence[CommunityEvents], names: Names) -> list[int]:
    """Return the communities with a name and the most members, as many as there are colours."""
    everybody = np.concatenate([column.communities for column in columns])
    ids, counts = np.unique(everybody, return_counts=True)
    ranked = [one for one in ids[np.argsort(-counts, kind="stable")].tolist() if one in names]
    return sorted(ranked[: len(COLOURS)])
