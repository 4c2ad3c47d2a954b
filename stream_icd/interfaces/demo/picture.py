"""The pictures of the demonstration: what memory adds to communities; the story of named ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from stream_icd.core.arrays import NOBODY
from stream_icd.core.events import CHANGES, CommunityEvent, CommunityEvents
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.demo.results import DemoResults, FoundSeries
from stream_icd.interfaces.demo.run import DemoRun
from stream_icd.interfaces.view.alluvial import COLOURS, GREY, colours_of, draw_bands
from stream_icd.interfaces.view.panels.community_map import community_layout
from stream_icd.methods.names.attributes import Attributes
from stream_icd.methods.names.names import named
from stream_icd.methods.tracking.confirmation import CONFIRMED, lasting_events, still_hold
from stream_icd.methods.tracking.sentences import certainty, sentence, without_consequences

_MOST_EDGES_DRAWN = 30_000
_MOST_COLUMNS = 20
_MOST_BOLD = 300  # number of snapshots up to which lines are bold
_INK, _QUIET, _FAINT = "#222222", "#5f6368", "#9aa0a6"
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"  # Okabe and Ito
_UNSURE = {"weak": "#f0f0f0", "none": "#dddddd"}  # background for weak evidence
_INCOMPLETE = "#fbe3d0"  # background for snapshots that lack nodes
_TITLE, _TEXT = 15, 12
DPI = 120

_LASTING = 5  # number of snapshots in which a community is seen, from which on it lasts
_STORY_COLUMNS = 30
_LEAST_BITS = 1.0  # odds of two to one that the edges of the window support the event
_MOST_EVENTS = 10

_Names = Mapping[int, str]
_InWords = tuple[int, str]  # the position of the window of an event, and the event in words


def demo_figure(run: DemoRun, results: DemoResults, change_at: int | None = None) -> Figure:
    """Plot the last communities, their quality, and nine communities over time.

    change_at: number of snapshots before the communities of a story become others; None: no story.
    """
    found, compared = results.found, results.compared
    detector = "with memory" if change_at is None else "frozen encoder and K-means"
    beside = list(compared)[-1] if compared else None  # with memory, or without
    n = len(found.windows)
    chosen = _consecutive(found.windows, _MOST_COLUMNS // 2)
    if beside is None:
        chosen = np.unique(np.linspace(0, n - 1, _MOST_COLUMNS).round().astype(int)).tolist()
    colours = colours_of([found.windows[place] for place in chosen])
    figure = Figure(figsize=(14, 10.5), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr, call-arg]
    graph, n_results = run.arrivals[-1].result["graph"], len(run.arrivals)
    snapshots = f"{n_results} snapshot{'s' * (n_results != 1)}"
    title = f"stream_icd: communities of the graph {graph} in {snapshots}"
    figure.suptitle(title, x=0.012, ha="left", fontsize=20, color=_INK)
    above, below = cast(list[SubFigure], figure.subfigures(2, 1, height_ratios=(1.15, 1)))
    left, right = above.subplots(1, 2, width_ratios=(0.8, 1))
    where = "below" if beside is None else "at the lower right"
    which = "The last snapshot" if n == n_results else "The last complete snapshot"
    _draw_communities(left, results.last, found.windows[-1], colours, which, where)
    # The position of each snapshot in the stream.
    places = {arrival.result["snapshot_id"]: place for place, arrival in enumerate(run.arrivals)}
    complete = [places[window.snapshot_id] for window in found.windows]
    _draw_quality(right, run, complete, {detector: found, **compared})
    _mark(right, run, change_at)
    if beside is None:
        title = f"{len(colours)} communities over time"
        _draw_lives(below.add_subplot(), found.windows, chosen, places, title)
    else:
        left, right = below.subplots(1, 2)
        first, end = (places[found.windows[at].snapshot_id] for at in (chosen[0], chosen[-1]))
        which = f"Snapshots {first} to {end}"
        _draw_lives(left, compared[beside].windows, chosen, places, f"{which}: {beside}")
        _draw_lives(right, found.windows, chosen, places, f"{which}: {detector}")
    return figure


def _consecutive(windows: Sequence[CommunityEvents], most: int) -> list[int]:
    """Return the positions of the last `most` windows without a gap, or of the longest run."""
    best: list[int] = []
    run: list[int] = []
    for at, events in enumerate(windows):
        run = [*([] if events.missed else run), at][-most:]
        if len(run) >= len(best):
            best = run
    return best


def _draw_communities(
    axes: Axes,
    snapshot: Snapshot,
    window: CommunityEvents,
    colours: Mapping[int, str],
    which: str,
    where: str,
) -> None:
    names, inverse = np.unique(window.communities, return_inverse=True)
    labels: NDArray[np.int32] = inverse.astype(np.int32)
    shades = to_rgba_array([colours.get(int(name), GREY) for name in names])
    positions = community_layout(snapshot.edges, labels)
    edges = snapshot.edges[:, :: max(1, snapshot.n_edges // _MOST_EDGES_DRAWN)]
    inside = labels[edges[0]] == labels[edges[1]]
    for shown, colour, alpha in ((~inside, _FAINT, 0.03), (inside, None, 0.2)):
        segments = list(positions[edges[:, shown].T])
        colors = colour or shades[labels[edges[0, shown]]]
        axes.add_collection(LineCollection(segments, colors=colors, linewidths=0.4, alpha=alpha))
    axes.scatter(positions[:, 0], positions[:, 1], s=6, c=shades[labels], linewidths=0, zorder=3)
    _entitle(
        axes,
        f"{which}, {snapshot.id}",
        f"{snapshot.n_nodes:,} nodes, {len(names)} communities; colours as {where}",
    )
    axes.set_aspect("equal", anchor="W")
    axes.autoscale_view()
    axes.axis("off")


def _draw_quality(
    axes: Axes, run: DemoRun, places: Sequence[int], lines: Mapping[str, FoundSeries]
) -> None:
    """Plot agreement with the truth; if it is unknown, how many nodes stay; else modularity."""
    incomplete = sorted(set(range(len(run.arrivals))) - set(places))
    for (name, line), colour in zip(lines.items(), (_BLUE, _ORANGE, _GREEN), strict=False):
        if line.agreement:
            title, values = "NMI with the planted communities", list(line.agreement)
        elif len(lines) > 1:
            title = "Fraction of the nodes that stay in their community"
            spread = np.full(len(run.arrivals), np.nan)
            spread[list(places)] = _staying(line.windows)
            values = spread.tolist()
        else:
            title = "Modularity"
            values = [arrival.result["modularity"] for arrival in run.arrivals]
        numbers = [value for value in values if not np.isnan(value)]
        label = f"{name}: median {np.median(numbers):.2f}" if numbers else name
        width = 2.5 if len(values) < _MOST_BOLD else 1.0
        axes.plot(range(len(values)), values, color=colour, linewidth=width, label=label)
    if len(lines) > 1:
        axes.legend(frameon=False, loc="lower right", fontsize=_TEXT)
    axes.set_ylim(0, 1.05)
    evidence = [arrival.result["evidence"] for arrival in run.arrivals]
    for place, strength in enumerate(evidence):
        if strength != "strong":
            axes.axvspan(place - 0.5, place + 0.5, color=_UNSURE[strength], linewidth=0)
    for place in incomplete:
        axes.axvspan(place - 0.5, place + 0.5, color=_INCOMPLETE, linewidth=0)
    more = [f"evidence for communities: {run.evidence}"]
    if incomplete:
        more.append(f"incomplete at the source, and left out: {len(incomplete)} (shaded)")
    _entitle(axes, title, *more)
    _by_snapshot(axes)
    axes.grid(axis="y", alpha=0.25)
    axes.margins(x=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _mark(axes: Axes, run: DemoRun, change_at: int | None) -> None:
    """Mark where the communities of a story become others, and where the detector's model does."""
    marks = [] if change_at is None else [(change_at, "other communities ", "right")]
    marks += [(at, f" {run.arrivals[at].result['model']}", "left") for at in run.model_changes]
    for row, (at, text, side) in enumerate(marks):
        axes.axvline(at - 0.5, color=_INK, linewidth=1, linestyle=":")
        place = (at - 0.5, 0.3 + 0.06 * row)
        axes.annotate(text, place, ha=side, va="center", fontsize=_TEXT, color=_INK)


def _staying(windows: Sequence[CommunityEvents]) -> list[float]:
    """Return the share of each window's nodes that keep their community of the window before.

    NaN for the first window, and where windows are missing: nothing is just before them.
    """
    shares = [float("nan")] * min(1, len(windows))
    for before, after in pairwise(windows):
        if after.missed:
            shares.append(float("nan"))
            continue
        now = after.communities_of(before.nodes)
        same = (now == before.communities)[now != NOBODY]
        shares.append(float(same.mean()) if len(same) else 0.0)
    return shares


def _draw_lives(
    axes: Axes,
    windows: Sequence[CommunityEvents],
    chosen: Sequence[int],
    places: Mapping[str, int],
    title: str,
) -> None:
    columns = [windows[at] for at in chosen]
    colours = colours_of(columns)
    together = sum(np.isin(column.communities, list(colours)).mean() for column in columns)
    draw_bands(axes, columns, colours, others=bool(together / len(columns) > 0.5))
    axes.set_xticks(range(len(columns)), [str(places[column.snapshot_id]) for column in columns])
    axes.set_ylabel("nodes", color=_QUIET, fontsize=_TEXT)
    _by_snapshot(axes)
    _entitle(axes, title, *_happened(windows))


def _by_snapshot(axes: Axes) -> None:
    axes.set_xlabel("snapshot", color=_QUIET, fontsize=_TEXT)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=_TEXT)


def _entitle(axes: Axes, title: str, *more: str) -> None:
    axes.set_title(title, loc="left", color=_INK, fontsize=_TITLE, pad=8 + 16 * len(more))
    axes.annotate(
        "\n".join(more),
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        color=_QUIET,
        fontsize=_TEXT,
    )


def _happened(windows: Sequence[CommunityEvents]) -> tuple[str, str]:
    """Return two lines: how many were born, merged, split and died; and how much is left out."""
    n_windows: Counter[int] = Counter()
    for window in windows:
        n_windows.update(np.unique(window.communities).tolist())
    events = [
        event
        for window in windows[1:]
        for event in without_consequences(window.events)
        if event.kind in CHANGES
    ]
    lasting: Counter[str] = Counter(
        event.kind
        for event in events
        if all(n_windows[c] >= _LASTING for c in (event.community, *event.parents, *event.children))
    )
    counts = ", ".join(f"{lasting[kind]:,} {kind}" for kind in CHANGES)
    brief = len(events) - lasting.total()
    return (
        f"all snapshots: {counts}",
        f"of communities seen in {_LASTING} or more; {brief:,} other events",
    )


def draw_story(windows: Sequence[CommunityEvents], attributes: Attributes, path: Path) -> list[str]:
    """Write the picture: the largest communities over all windows, and the strongest events below.

    Returns:
        How many events there are, and each of them, in words.
    """
    events = _strongest_events(windows, attributes)
    figure = Figure(figsize=(14, 9), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(2.6, 1))
    places = np.unique(
        np.linspace(0, len(windows) - 1, _STORY_COLUMNS).round().astype(int)
    ).tolist()
    columns = [windows[at] for at in places]
    names = _names(columns, attributes)
    shown = _largest(columns, names)
    draw_bands(above, columns, dict(zip(shown, COLOURS, strict=False)), names=names)
    ends = [f"{column.window.start:%Y-%m}" for column in columns]
    every = max(1, len(columns) // 10)
    above.set_xticks(range(0, len(columns), every), ends[::every])
    above.set_ylabel("nodes", color=_QUIET)
    above.spines[["top", "right"]].set_visible(False)
    at_events = [at for at, _ in events]
    places_of_events: list[float] = np.interp(at_events, places, range(len(places))).tolist()
    rows = 0
    for number, at in enumerate(places_of_events, start=1):
        above.axvline(at, color=_INK, linewidth=0.8, linestyle=":")
        crowded = sum(0 <= at - earlier < 0.4 for earlier in places_of_events[: number - 1])
        rows = max(rows, crowded)
        above.annotate(
            str(number), (at, 1), (0, 2 + 12 * crowded), above.get_xaxis_transform(),
            "offset points", ha="center", color=_INK,
        )  # fmt: skip
    last = windows[-1].window
    above.set_title(
        f"{windows[-1].graph}: communities by {' and '.join(c.name for c in attributes.columns)}, "
        f"{windows[0].window.start:%Y-%m-%d} to {last.start:%Y-%m-%d}, and {_how_many(events)}",
        loc="left", color=_INK, fontsize=15, pad=20 + 12 * rows, parse_math=False,
    )  # fmt: skip
    below.axis("off")
    for line, (_, words) in enumerate(events):
        text = f"{line + 1:>2}  {words}"
        below.text(0, 1 - line / _MOST_EVENTS, text, color=_INK, fontsize=11, va="top",
                   transform=below.transAxes, parse_math=False)  # fmt: skip
    figure.savefig(path, dpi=DPI)
    return [_how_many(events), *(words for _, words in events)]


def _strongest_events(windows: Sequence[CommunityEvents], attributes: Attributes) -> list[_InWords]:
    """Return the strongest mergers and splits that lasted, one a window, in time order.

    Only those that the edges of their window support: undone, they would take more bits.
    """
    best: dict[int, CommunityEvent] = {}
    for at in range(1, len(windows) - CONFIRMED):
        lasting = lasting_events(windows[at - 1 : at + CONFIRMED + 1], CONFIRMED)
        supported = [
            event
            for event in lasting.events
            if event.kind in ("merged", "split") and (event.bits or 0.0) >= _LEAST_BITS
        ]
        if supported:
            best[at] = max(supported, key=lambda event: event.bits or 0.0)
    chosen = sorted(sorted(best, key=lambda at: -(best[at].bits or 0.0))[:_MOST_EVENTS])
    return [(at, _in_words(windows, at, best[at], attributes)) for at in chosen]


def _in_words(
    windows: Sequence[CommunityEvents], at: int, event: CommunityEvent, attributes: Attributes
) -> str:
    """Return an event of the window at this place in words: when, what, how strong, how long."""
    window, around = windows[at], windows[at - 1 : at + 1]
    names = {
        community: name.briefly()
        for tracked in around
        for community, name in named(tracked.nodes, tracked.communities, attributes).names().items()
    }
    sizes_before, sizes = (Counter(tracked.communities.tolist()) for tracked in around)
    what = sentence(event, lambda id: names.get(id, f"community {id}"), sizes_before, sizes)
    last = _last_that_holds(windows, at, event)
    undone = last < len(windows) - 1
    lasted = windows[last].window.end - window.window.end
    sure = certainty(event, lasted, undone=undone)
    return f"{window.window.start:%Y-%m-%d}  {what}; {sure}"


def _last_that_holds(windows: Sequence[CommunityEvents], at: int, event: CommunityEvent) -> int:
    """Return the last of the windows in a row in which the event of one of them holds."""
    for later in range(at + 1, len(windows)):
        if not still_hold([event], windows[at - 1], windows[at], windows[later])[0]:
            return later - 1
    return len(windows) - 1


def _how_many(events: Sequence[_InWords]) -> str:
    return f"{len(events) or 'no'} mergers and splits that lasted and that the edges support"


def _names(windows: Sequence[CommunityEvents], attributes: Attributes) -> dict[int, str]:
    """Return the last name of each community, by its id."""
    names: dict[int, str] = {}
    for window in windows:
        of_window = named(window.nodes, window.communities, attributes).names()
        names |= {community: str(name) for community, name in of_window.items()}
    return names


def _largest(columns: Sequence[CommunityEvents], names: _Names) -> list[int]:
    """Return the communities with a name and the most members, as many as there are colours."""
    everybody = np.concatenate([column.communities for column in columns])
    ids, counts = np.unique(everybody, return_counts=True)
    by_members = ids[np.argsort(-counts, kind="stable")].tolist()
    return sorted([community for community in by_members if community in names][: len(COLOURS)])
