"""The pictures of a series for papers: flow, map and life, as figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, time, tzinfo
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from stream_icd.core.communities import STAGES
from stream_icd.core.printable import printable, shortened
from stream_icd.interfaces.view.alluvial import COLOURS, GREY, HALO, draw_bands
from stream_icd.interfaces.view.data.series import SeenWindow
from stream_icd.interfaces.view.panels.flow import most_members

_MIDNIGHT = time()
_COLUMNS = 21
_BANDS = 12
_INK, _QUIET = "#222222", "#5f6368"
_BLUE, _ORANGE, _GREEN = "#0072b2", "#d55e00", "#009e73"
_SWAP: Any = {"color": _INK, "linewidth": 1, "linestyle": "--"}
_CONCISE: Any = ConciseDateFormatter  # it has no types
_TITLE: Any = {"loc": "left", "color": _INK, "fontsize": 12, "parse_math": False}
_NAME: Any = {"color": _INK, "fontsize": 9}
_STAGE_COLOURS = ("#88ccee", "#ddcc77", "#cc6677", _BLUE)


def _colour(community: int) -> str:
    """Return the colour of a community, the same as on the page."""
    return COLOURS[community % len(COLOURS)]


def pictures_of(
    windows: Sequence[SeenWindow],
    drawn: dict[str, Any],
    inside: dict[str, Any] | None = None,
    placed: dict[str, Any] | None = None,
    zone: tzinfo = UTC,
) -> dict[str, Figure]:
    """Return `flow`, `map` and `life` of a series.

    The map shows nodes where they are (`placed`, see `community_map.node_places`); else the discs
    of `drawn` (`quotient`), or with `inside` their members and edges (`opened`).
    """
    return {
        "flow": _flow_picture(windows, zone),
        "map": _places_picture(placed) if placed else _map_picture(drawn, inside, zone),
        "life": _life_picture(windows, zone),
    }


def _flow_picture(windows: Sequence[SeenWindow], zone: tzinfo) -> Figure:
    """Draw the largest communities of at most `_COLUMNS` windows, and the streams between them.

    A community has the last name that it had in any of the windows.
    """
    places = np.unique(np.linspace(0, len(windows) - 1, _COLUMNS).round().astype(int))
    columns = [windows[place] for place in places]
    shown = most_members(columns, _BANDS)
    figure, (axes,) = _figure(12, 6, 1)
    colours = {community: _colour(community) for community in sorted(shown)}
    draw_bands(axes, [column.tracked() for column in columns], colours, names=_names_of(windows))
    every = max(1, len(columns) // 7)
    starts = [_when(column.result.window.start, zone, "\n") for column in columns]
    axes.set_xticks(range(0, len(columns), every), starts[::every])
    axes.set_ylabel("nodes", color=_QUIET)
    for at, model in _swaps(columns):
        axes.axvline(at - 0.5, **_SWAP)
        place = (at - 0.5, axes.get_ylim()[1])
        axes.annotate(f" {model}", place, va="top", parse_math=False, **_NAME)
    some = "" if len(columns) == len(windows) else f" ({len(columns)} of {len(windows):,} windows)"
    _title(axes, windows, f"communities over time{some}", zone)
    return figure


def _names_of(windows: Sequence[SeenWindow]) -> dict[int, str]:
    return {
        community: name.briefly()
        for window in windows
        for community, name in window.names.names.items()
    }


def _when(time: datetime, zone: tzinfo, between: str = " ") -> str:
    """Return a time; the date alone at midnight."""
    local = time.astimezone(zone)
    day = f"{local:%Y-%m-%d}"
    return day if local.time() == _MIDNIGHT else f"{day}{between}{local:%H:%M}"


def _swaps(windows: Sequence[SeenWindow]) -> list[tuple[int, str]]:
    models = [window.result.model for window in windows]
    changes = [at for at in range(1, len(models)) if models[at] != models[at - 1]]
    return [(at, _shown(models[at])) for at in changes]


def _shown(name: str) -> str:
    """Return a name from outside as a title has room for it, without what XML cannot hold."""
    return printable(shortened(name, 40))


def _map_picture(drawn: dict[str, Any], inside: dict[str, Any] | None, zone: tzinfo) -> Figure:
    """Draw the map; names that its `names` give stand in the discs, if they have room."""
    figure, (axes,) = _figure(9, 9, 1)
    discs = {disc["id"]: disc for disc in drawn["communities"]}
    if inside is None:
        _draw_discs(axes, discs, drawn["links"])
    else:
        _draw_members(axes, discs, inside)
    for community, disc in discs.items():
        name = drawn.get("names", {}).get(str(community), {})
        fitting = (name.get(kind, "") for kind in ("brief", "value"))
        if text := next((text for text in fitting if 0 < len(text) < disc["r"]), ""):
            axes.text(disc["x"], disc["y"], text, ha="center", va="center", path_effects=HALO,
                      zorder=4, parse_math=False, **_NAME)  # fmt: skip
    axes.set_title(
        f"{_when(datetime.fromisoformat(drawn['start']), zone)}: {drawn['nodes']:,} nodes, "
        f"{drawn['edges']:,} edges, "
        f"{len(discs)} communities",
        **_TITLE,
    )
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.axis("off")
    return figure


def _draw_discs(axes: Any, discs: dict[int, Any], links: Sequence[Sequence[Any]]) -> None:
    ends = [[(discs[i]["x"], discs[i]["y"]) for i in link[:2]] for link in links]
    most = max((link[2] for link in links), default=1)
    widths = [0.3 + 4 * (link[2] / most) ** 0.5 for link in links]
    axes.add_collection(LineCollection(ends, linewidths=widths, colors=GREY, alpha=0.5))
    circles = [Circle((disc["x"], disc["y"]), disc["r"]) for disc in discs.values()]
    paint = [_colour(community) for community in discs]
    axes.add_collection(PatchCollection(circles, facecolors=paint, alpha=0.85, zorder=2))


def _draw_members(axes: Any, discs: dict[int, Any], inside: dict[str, Any]) -> None:
    """Draw the members of each disc, and the edges: those between communities in grey."""
    centres = [(discs[id]["x"], discs[id]["y"]) for id in inside["ids"]]
    places = np.stack([inside["x"], inside["y"]], axis=1) + np.reshape(centres, (-1, 2))
    ids = np.array(inside["ids"], np.int64)
    edges = np.array(inside["edges"], np.int64).reshape(-1, 2)
    same = ids[edges[:, 0]] == ids[edges[:, 1]] if len(edges) else np.zeros(0, bool)
    for chosen, alpha in ((~same, 0.08), (same, 0.25)):
        paint = [_colour(int(ids[a])) if alpha > 0.1 else GREY for a in edges[chosen, 0]]
        ends = list(places[edges[chosen]])
        axes.add_collection(LineCollection(ends, colors=paint or GREY, linewidths=0.4, alpha=alpha))
    axes.scatter(
        places[:, 0], places[:, 1], s=7, c=list(map(_colour, ids.tolist())), linewidths=0, zorder=3
    )


def _places_picture(placed: dict[str, Any]) -> Figure:
    figure, (axes,) = _figure(9, 9, 1)
    paint = [_colour(community) if community >= 0 else GREY for community in placed["ids"]]
    axes.scatter(placed["x"], placed["y"], s=6, c=paint, linewidths=0)
    left, right, bottom, top = placed["frame"]
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    axes.set_aspect(1 / placed["aspect"])
    if placed["degrees"]:
        axes.set_xlabel("longitude, degrees", color=_QUIET)
        axes.set_ylabel("latitude, degrees", color=_QUIET)
    axes.set_title(
        f"{_shown(placed['snapshot'])}: {len(paint):,} nodes, "
        f"{len(set(placed['ids'])):,} communities",
        **_TITLE,
    )
    return figure


def _life_picture(windows: Sequence[SeenWindow], zone: tzinfo) -> Figure:
    figure, (count, quality, times) = _figure(12, 8, 3)
    starts = [window.result.window.start for window in windows]
    _plot(count, windows, [window.n_communities for window in windows], color=_GREEN)
    count.set_ylim(0)
    _title(count, windows, "number of communities", zone)
    modularity = [window.result.modularity for window in windows]
    _plot(quality, windows, modularity, color=_BLUE, label="modularity")
    agreement = [np.nan if window.nmi is None else window.nmi for window in windows]
    if not np.isnan(agreement).all():
        label = "NMI with the known communities"
        _plot(quality, windows, agreement, color=_ORANGE, label=label)
    quality.set_ylim(min(0.0, *modularity), 1.02)
    quality.set_title("quality", **_TITLE)
    stages = [
        [window.result.milliseconds.get(stage, 0.0) for window in windows] for stage in STAGES
    ]
    used = [at for at, values in enumerate(stages) if any(values)] or [len(STAGES) - 1]
    times.stackplot(
        starts,
        [stages[at] for at in used],
        labels=[STAGES[at] for at in used],
        colors=[_STAGE_COLOURS[at] for at in used],
    )
    times.set_title("milliseconds by stage", **_TITLE)
    for at, model in _swaps(windows):
        for axes in (count, quality, times):
            axes.axvline(starts[at], **_SWAP)
        place = (starts[at], 0.02)
        across = count.get_xaxis_transform()
        count.annotate(f" {model}", place, xycoords=across, parse_math=False, **_NAME)
    for axes in (count, quality, times):
        axes.grid(axis="y", alpha=0.25)
        axes.margins(x=0)
        axes.xaxis.set_major_formatter(_CONCISE(axes.xaxis.get_major_locator(), tz=zone))
    for axes in (quality, times):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=9, loc="upper left", framealpha=0.8, edgecolor="none")
    return figure


def _plot(axes: Any, windows: Sequence[SeenWindow], values: Sequence[float], **style: str) -> None:
    """Draw the values of windows; where windows are missing, NaN ends the line."""
    times: list[datetime] = []
    with_gaps: list[float] = []
    for at, (window, value) in enumerate(zip(windows, values, strict=True)):
        start = window.result.window.start
        if at and start > windows[at - 1].result.window.end:
            times.append(start)
            with_gaps.append(np.nan)
        times.append(start)
        with_gaps.append(value)
    axes.plot(times, with_gaps, **style)


def _figure(width: float, height: float, rows: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    below = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for axes in below:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, below


def _title(axes: Any, windows: Sequence[SeenWindow], subject: str, zone: tzinfo) -> None:
    first, last = windows[0].result, windows[-1].result
    span = f"{_when(first.window.start, zone)} to {_when(last.window.start, zone)} {zone}"
    axes.set_title(f"{_shown(last.graph)}: {subject}, {span}", **_TITLE)
