"""What docs/measured/retraining.md quotes: table and picture of streams, and the table of runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.shared.kept import Figures

BEFORE, AFTER = 12, 34
"""Windows before a shift (after those that the first champion learned from), and after each."""

WON_FROM, WON_TO = 20, 30
"""Windows after a shift in which it is measured what was won back."""

WORSE_NMI = 0.1
"""NMI points that a model must lose to count as worse: less is chance."""

LEAST_COST = {"NMI, %": 0.5, "bits an edge": 0.02}
"""A shift that costs less costs nothing."""

ROW = "| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n"
RUNS_ROW = "| {} | {} | {} | {} | **{}** | **{}** | {} | {} | {} |\n"


def streams_table(streams: dict[str, Sequence[Figures]]) -> str:
    """A row for each shift: means over the streams of a kind."""
    head = ROW.format(
        "stream",
        "before the shift",
        "after it: `default`",
        "never retrained",
        "**retrained**",
        "oracle",
        "won back",
        "windows to the promotion",
        "promoted, rolled back",
    )
    rows = [head, "|" + "---|" * 9 + "\n"]
    for name, of_kind in streams.items():
        shifts = of_kind[0]["shifts"]
        if not shifts:
            rows.append(_row(name, of_kind, len(of_kind[0]["frozen"]) - WON_TO, "bits an edge"))
        for number, shift in enumerate(shifts, 1):
            said = name if len(shifts) == 1 else f"{name}, shift {number}"
            rows.append(_row(said, of_kind, shift, "NMI, %"))
    return "".join(rows)


def _row(name: str, streams: Sequence[Figures], shift: int, measure: str) -> str:
    tracks = ("default", "frozen", "retrained", "oracle")
    after = {
        key: _mean([_part(stream[key], shift, WON_FROM, WON_TO) for stream in streams])
        for key in tracks
    }
    before = _mean([_part(stream["retrained"], shift, -10, 0) for stream in streams])
    cost, won = after["oracle"] - after["frozen"], after["retrained"] - after["frozen"]
    outcomes = [stream["outcomes"][shift : shift + AFTER] for stream in streams]
    swaps = [of.index("promoted") + 1 for of in outcomes if "promoted" in of]
    counts = [sum(of.count(what) for of in outcomes) for what in ("promoted", "rolled back")]
    shown = [f"{value:.2f}" for value in (before, *after.values())]
    return ROW.format(
        f"{name} ({measure})",
        *shown[:3],
        f"**{shown[3]}**",
        shown[4],
        f"{won / cost:.0%}" if cost >= LEAST_COST[measure] else "nothing was lost",
        ", ".join(map(str, swaps)) or "-",
        f"{counts[0]}, {counts[1]}",
    )


def _part(values: Sequence[float], shift: int, start: int, end: int) -> Sequence[float]:
    return values[max(shift + start, 0) : shift + end]


def _mean(values: Sequence[Sequence[float]]) -> float:
    return float(np.mean(values))


def runs_table(runs: Sequence[Figures]) -> str:
    """A row for the runs without a shift, and one for those with one."""
    head = RUNS_ROW.format(
        "streams",
        "runs",
        "models learned",
        "promoted",
        "hidden edges worse after",
        f"NMI worse after, by {WORSE_NMI} or more",
        "hidden edges, least and mean gain, bits an edge",
        "NMI, least and mean gain, points",
        "rolled back",
    )
    rows = [head, "|" + "---|" * 9 + "\n"]
    for shift in (False, True):
        chosen = [run for run in runs if run["shift"] == shift]
        outcomes = [outcome for run in chosen for outcome in run["outcomes"]]
        learned = sum(outcomes.count(one) for one in ("kept", "promoted", "failed"))
        promoted = [gain for run in chosen for gain in run["promoted"]]
        hidden = [gain["hidden edges"] for gain in promoted]
        nmi = [gain["nmi"] for gain in promoted if "nmi" in gain]
        rows.append(
            RUNS_ROW.format(
                f"{'with' if shift else 'without'} a shift",
                len(chosen),
                learned,
                len(promoted),
                sum(gain < 0 for gain in hidden),
                sum(gain <= -WORSE_NMI for gain in nmi),
                _least_and_mean(hidden, 3),
                _least_and_mean(nmi, 2),
                outcomes.count("rolled back"),
            )
        )
    return "".join(rows)


def _least_and_mean(gains: Sequence[float], digits: int) -> str:
    return f"{min(gains):+.{digits}f}, {np.mean(gains):+.{digits}f}" if gains else "-"


def draw_streams(streams: dict[str, Sequence[Figures]], path: Path) -> None:
    """The first stream of each kind: quality of each window, shifts, promotions."""
    columns = min(2, len(streams))
    rows = -(-len(streams) // columns)
    figure, panels = plt.subplots(rows, columns, figsize=(12, 2.8 * rows), squeeze=False)
    for panel, (name, of_kind) in zip(panels.flat, streams.items(), strict=False):
        one = of_kind[0]
        panel.plot(one["oracle"], color="0.6", linewidth=3, alpha=0.6, label="oracle")
        panel.plot(one["frozen"], color="tab:red", label="never retrained")
        panel.plot(one["retrained"], color="tab:blue", linewidth=1, label="retrained")
        for at, outcome in enumerate(one["outcomes"]):
            if outcome in ("promoted", "rolled back"):
                style = "-" if outcome == "promoted" else ":"
                panel.axvline(at + 0.5, color="tab:blue", linestyle=style, linewidth=0.8)
        for shift in one["shifts"]:
            panel.axvline(shift - 0.5, color="black", linestyle="--", linewidth=0.8)
        panel.set(title=name, ylabel="NMI, %" if one["shifts"] else "hidden edges, bits an edge")
    for panel in panels[-1]:
        panel.set_xlabel("window")
    panels.flat[0].legend(loc="best")
    for panel in islice(panels.flat, len(streams), None):
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=80)
    plt.close(figure)
