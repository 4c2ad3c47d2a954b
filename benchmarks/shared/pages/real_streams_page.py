"""docs/measured/real_streams.md and its picture, from the figures of benchmarks/real_streams.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from benchmarks.shared.kept import Figures
from benchmarks.shared.spread import with_spread
from benchmarks.shared.streams.known_streams import KnownStream, Purpose

Known = Mapping[str, Figures]

LIFECYCLE = "lifecycle"
UNFINISHED = "minutes"
"""The only figure of a method that did not end: the processor time that it had."""

BEFORE, ALONE, OURS = "memory, before", "alone", "ours"
BASELINE = "decayed sum, "
FIXED = (f"{BASELINE}λ 0.8", f"{BASELINE}λ 0.9")
SUMMARY = (ALONE, BEFORE, *FIXED, BASELINE, OURS, "smoothed Louvain", "multilayer Leiden")
DRAWN = (
    "high school 2012, hours",
    "brain",
    "LFR μ .7, 5,000 nodes, 2 % move",
    "LFR μ .6, complete change",
)
CHANGED = "LFR μ .6, complete change"
STYLES: dict[str, dict[str, Any]] = {
    "alone": {"color": "C0", "linestyle": ":", "linewidth": 1.8},
    "memory, before": {"color": "C1", "linewidth": 5, "alpha": 0.45},
    "decayed sum, best λ": {"color": "C2", "linestyle": "--", "linewidth": 1.8},
    "ours": {"color": "C3", "linewidth": 1.6},
}
MANY_WINDOWS, MEAN_OF_MANY = 40, 7
"""Curves of more windows than that are drawn as means of some."""

PURPOSES: dict[Purpose, str] = {"choose": "chosen on", "report": "reported"}


def key_of(stream: str, method: str, seed: int) -> str:
    """The name of the figures of a method on a stream."""
    return f"{stream} | {method} | {seed}"


def figures_of(known: Known, stream: str, method: str, purpose: Purpose) -> list[Figures]:
    """Of all seeds."""
    start = f"{stream} | {method} | "
    return [
        one for key, one in known.items() if key.startswith(start) and one["purpose"] == purpose
    ]


def real_streams_page(known: Known, streams: Sequence[KnownStream], methods: Sequence[str]) -> str:
    """The page. Rows of which there are no figures are left out."""
    parts = [
        TITLE,
        *_behind(known, streams),
        HEADER,
        *_summary(known, streams),
        PICTURE,
        CHANGE,
        *_after_the_change(known),
    ]
    parts += [LIVES, *_lives(known), DETAILS]
    for stream in streams:
        for purpose in stream.purposes:
            rows = list(_rows(known, stream.name, methods, purpose))
            if rows:
                parts += [TABLE.format(name=stream.name, purpose=PURPOSES[purpose]), *rows]
    return "\n".join([*parts, _commits(known)])


def _behind(known: Known, streams: Sequence[KnownStream]) -> Iterator[str]:
    """Say on which streams ours is behind one line, by more than the spread."""
    for stream in streams:
        for purpose in get_args(Purpose):
            ours, *others = (
                [one["ami"] for one in figures_of(known, stream.name, name, purpose)]
                for name in (OURS, ALONE, FIXED[1])
            )
            best = max((other for other in others if other), key=np.mean, default=[])
            if ours and best and np.mean(best) - np.mean(ours) > max(np.std(ours), np.std(best)):
                behind = f"{with_spread(ours)} is behind {with_spread(best)}"
                yield f"**{stream.name}: {behind} of alone or of the decayed sum with λ .9.**\n"


def _summary(known: Known, streams: Sequence[KnownStream]) -> Iterator[str]:
    for purpose in reversed(get_args(Purpose)):
        for stream in streams:
            found = {
                name: figures_of(known, stream.name, _named(known, stream.name, name), purpose)
                for name in SUMMARY
            }
            if found[ALONE]:
                ami = [_ami(one) for one in found.values()]
                baseline = _named(known, stream.name, BASELINE).removeprefix(BASELINE)
                horizon = _mean(found[OURS], "horizon", 1)
                cells = [*ami[:4], f"{ami[4]} ({baseline})", ami[5], horizon, *ami[6:]]
                yield f"| {stream.name} | {PURPOSES[purpose]} | {' | '.join(cells)} |"


def _named(known: Known, stream: str, name: str) -> str:
    return _best_baseline(known, stream) if name == BASELINE else name


def _best_baseline(known: Known, stream: str) -> str:
    """The decayed sum with the best λ of this stream, in hindsight."""
    scores: dict[str, list[float]] = {}
    for key, one in known.items():
        of_stream, method, _ = key.split(" | ")
        if of_stream == stream and method.startswith(BASELINE):
            scores.setdefault(method, []).append(one["ami"])
    return max(scores, key=lambda name: float(np.mean(scores[name])), default=BASELINE)


def _ami(figures: Sequence[Figures]) -> str:
    """The mean over the seeds, and the standard deviation if there are several."""
    if any(UNFINISHED in figure for figure in figures):
        return f"more than {figures[0][UNFINISHED]} min"
    scores = [figure["ami"] for figure in figures]
    return with_spread(scores) if scores else ""


def _mean(figures: Sequence[Figures], name: str, digits: int) -> str:
    values = [figure[name] for figure in figures if figure.get(name) is not None]
    return f"{np.mean(values):.{digits}f}" if values else ""


def _rows(known: Known, stream: str, methods: Sequence[str], purpose: Purpose) -> Iterator[str]:
    for method in methods:
        figures = figures_of(known, stream, method, purpose)
        if figures:
            found = [_mean(figures, name, 0) for name in ("communities", "classes")]
            cells = [
                method,
                str(len(figures)),
                _ami(figures),
                _mean(figures, "ami_last", 1),
                _mean(figures, "nmi", 1),
                _mean(figures, "churn", 1),
                " of ".join(filter(None, found)),
                _mean(figures, "horizon", 1),
                _mean(figures, "milliseconds", 1),
            ]
            yield f"| {' | '.join(cells)} |"


def _after_the_change(known: Known) -> Iterator[str]:
    for method in (ALONE, BEFORE, _best_baseline(known, CHANGED), OURS):
        for purpose in get_args(Purpose):
            curves = _curves(known, CHANGED, method, purpose)
            if curves.size:
                half = curves.shape[1] // 2
                means = curves.mean(axis=0)[half - 1 : half + 4]
                cells = " | ".join(f"{mean:.1f}" for mean in means)
                yield f"| {method} | {PURPOSES[purpose]} | {cells} |"


def _curves(known: Known, stream: str, method: str, purpose: Purpose) -> NDArray[np.float64]:
    """AMI by window, `(seeds, windows)`."""
    return np.array([one["windows"] for one in figures_of(known, stream, method, purpose)])


def _lives(known: Known) -> Iterator[str]:
    for method in (ALONE, BEFORE, OURS):
        one = known.get(key_of(LIFECYCLE, method, 0))
        if one is not None:
            yield f"| {method} | {one['days']} | {_counts(one['events'])} | {one['churn']} |"
            if one.get("strong"):
                yield f"| {method}, ≥ 10 bits | {one['days']} | {_counts(one['strong'])} | |"


def _counts(events: dict[str, int]) -> str:
    kinds = ("born", "merged", "split", "died", "grown", "shrunk")
    return " | ".join(f"{events.get(kind, 0):,}" for kind in kinds)


def _commits(known: Known) -> str:
    """The methods of each commit; with their streams if a method was measured at several."""
    streams: dict[tuple[str, str], dict[str, None]] = {}
    for key, one in known.items():
        stream, method, _ = key.split(" | ")
        streams.setdefault((one["commit"], method), {})[stream] = None
    n_commits = Counter(method for _, method in streams)
    lines = []
    for commit in dict.fromkeys(commit for commit, _ in streams):
        named = [
            method if n_commits[method] == 1 else f"{method} ({' / '.join(of_method)})"
            for (at, method), of_method in sorted(streams.items())
            if at == commit
        ]
        lines.append(f"- {commit}: {'; '.join(named)}")
    return "\n".join(["", COMMITS, *lines, ""])


def draw(known: Known, out: Path) -> None:
    """AMI over the windows of four streams, by method."""
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    panels = figure.subplots(2, 2).flat
    for panel, stream in zip(panels, DRAWN, strict=True):
        _draw_panel(panel, known, stream)
    lines = [Line2D([], [], **style, label=name) for name, style in STYLES.items()]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines), frameon=False)
    figure.savefig(out, dpi=90)


def _draw_panel(panel: Axes, known: Known, stream: str) -> None:
    best = _best_baseline(known, stream)
    methods = (ALONE, BEFORE, best, OURS)
    n_mean = 1
    for method, style in zip(methods, STYLES.values(), strict=True):
        curves = [_curves(known, stream, method, arg) for arg in reversed(get_args(Purpose))]
        curve = next((one.mean(axis=0) for one in curves if one.size), None)
        if curve is not None:
            n_mean = MEAN_OF_MANY if len(curve) > MANY_WINDOWS else 1
            smooth = np.convolve(curve, np.ones(n_mean) / n_mean, "valid")
            panel.plot(n_mean - 1 + np.arange(len(smooth)), smooth, **style)
    of_several = f", mean of the last {n_mean}" if n_mean > 1 else ""
    panel.set(xlabel="window", ylabel=f"AMI, %{of_several}", ylim=(-3, 103))
    panel.set_title(f"{stream} ({best.removeprefix(BASELINE)})")
    panel.grid(alpha=0.3)


TITLE = "# Streams whose classes are known\n"

HEADER = """For those who ask how well communities of a stream are found, and what looking back
brings. Made by
`python -m benchmarks.real_streams --data FOLDER`. K is unknown to all methods, unless said.

- *High school 2012*: contacts in windows of an hour or a day, and school classes (SocioPatterns).
- *Brain* and *dblp*: regions by function, and authors by field (BenchTGC).
- *Workplace* and *hospital*: contacts, and departments or roles (SocioPatterns). *Ants*: contacts
  in a colony (Mersch, Crespi and Keller 2013). *Basketball*: games of a week of four seasons, and
  conferences. *UN votes*: countries that vote alike, and regions.
- *AS with countries*: 40 days of the Internet, and the countries of its systems. Systems without a
  country are not scored.
- *Greene's*: streams by the generator of Greene, Doyle and Cunningham (ASONAM 2010).
- *LFR* and *like Greene's*: drifting simulated graphs; a share of the nodes moves to another
  community in each window. Mean over streams of several seeds ± standard deviation.

Rules and constants were *chosen on* some streams. The others are only *reported*: no choice looked
at them, but the hypotheses were chosen with high school by the hour, AS with countries and Greene's
switch file in view. Simulated streams have seeds below 1,000 for choosing and from 9,000 on
for reporting.

AMI (mutual information adjusted for chance) in percent, mean from the second quarter of the windows
on. *Alone*, *decayed sum* and *ours* follow real streams eight times, with other random numbers:

| stream | | alone | memory, before | λ .8 | λ .9 | decayed sum (best λ) | **ours** | horizon \
| smoothed Louvain \
| multilayer Leiden |
|---|---|---|---|---|---|---|---|---|---|---|"""

PICTURE = """
- *alone*: each window by itself, model `default`.
- *memory, before*: memory as it was before detection chose how far to look back.
- *decayed sum*: A ← λA + B adds each window to what is left of the ones before; model `default` on
  the sum as on one graph. The best λ is that of five for this stream, in hindsight.
- *ours*: what a detector does now; the horizon is how many windows it looks back.
- *smoothed Louvain*: tnetwork's, which starts from the communities of the last window.
- *multilayer Leiden*: leidenalg's, with links of the mean edge weight between the copies of a node.
  It sees all windows at once, also those to come.
- An empty cell: not measured.
- *more than 20 min*: the peer was ended after this processor time for the whole stream. Both peers
  follow one stream of each simulated kind.

![AMI over the windows of four streams](real_streams.png)"""

CHANGE = """
## After a complete change

AMI in the last window before all communities change at once, and in those after it:

| method | | before | 1st after | 2nd | 3rd | 4th |
|---|---|---|---|---|---|---|"""

LIVES = """
## Lifecycles on the Internet

What the [tracker](../tracking.md) reports of all days of AS-733, detected with the model `as`.
Churn is the share of the nodes whose community has another id the next day. Few of these events are
real: half of them come in windows in which a search or another hypothesis corrected what was known.
Those have no strength; *≥ 10 bits*: what `stream-icd subscribe --least-bits 10` shows.

| method | days | born | merged | split | died | grown | shrunk | churn |
|---|---|---|---|---|---|---|---|---|"""

DETAILS = """
## All figures

AMI, the mean AMI of the last three windows, NMI and churn in percent; medians of the communities
found, of the classes, and of the milliseconds of processor time for a window, on one thread. Churn
is the share of the nodes of two consecutive windows whose community has another id; of methods
without ids, under the best renaming. *icd* is the paper's method: alone, on the decayed sum with a
fixed λ, and as a detector has it, with the horizon found. *K given*: the number of classes in each
window."""

TABLE = """
### {name}, {purpose}

| method | runs | AMI | last three | NMI | churn | K found | horizon | CPU ms |
|---|---|---|---|---|---|---|---|---|"""

COMMITS = """## Measured at

The commits of the code that was measured, and the methods:
"""
