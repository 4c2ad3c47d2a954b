"""docs/measured/memory.md, from the figures of benchmarks/memory.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.commit import measured_at
from benchmarks.shared.kept import Figures
from benchmarks.shared.spread import with_spread
from benchmarks.shared.streams.memory_streams import SETTLED, Stream

Known = dict[str, Figures]


def memory_page(
    known: Known,
    *,
    mixings: Sequence[Stream],
    streams: Sequence[Stream],
    broken: Sequence[Stream],
    learned: Sequence[Stream],
    peers: Sequence[str],
) -> str:
    """The page. Rows of which there are no figures are left out."""
    usual = next(stream for stream in streams if (stream.mixing, stream.n_nodes) == (0.6, 5000))
    sections = [
        HEADER,
        *_rows(known, streams, _drift_row),
        BY_WINDOW,
        *_rows(known, mixings, _window_rows),
        BREAK,
        *_rows(known, broken, _break_row, "break "),
        LEARNED,
        *_rows(known, learned, _learned_row, "learned "),
        PEERS,
        *_peer_rows(known, peers, usual),
        REAL,
        *(_real_row(name, one) for name, one in known.items() if "churn" in one),
        "",
        *_commits(known),
    ]
    return "\n".join(sections)


def _commits(known: Known) -> Iterator[str]:
    commits = [one["commit"] for one in known.values()]
    if commits:
        yield measured_at(commits)


def _of(known: Known, name: str) -> list[Figures]:
    """The figures of all seeds."""
    return [one for key, one in known.items() if key.rpartition(" seed=")[0] == name]


def _rows(known: Known, streams: Sequence[Stream], row: Any, prefix: str = "") -> Iterator[str]:
    for stream in streams:
        figures = _of(known, prefix + stream.name)
        if figures:
            yield row(stream, figures)


def _all(figures: list[Figures], key: str) -> NDArray[np.float64]:
    """A figure of all seeds, (seeds, ...)."""
    return np.array([figure[key] for figure in figures], np.float64)


def _settled(figures: list[Figures], key: str) -> NDArray[np.float64]:
    """NMI in percent of each seed, mean from the fifth window on, (seeds,)."""
    scores: NDArray[np.float64] = 100 * _all(figures, key)[:, SETTLED:].mean(axis=1)
    return scores


def _drift_row(stream: Stream, figures: list[Figures]) -> str:
    alone, memory = _settled(figures, "alone"), _settled(figures, "memory")
    spent = _all(figures, "milliseconds").mean(axis=0)
    known = "given" if stream.k_given else ""
    size = f"{stream.n_nodes:,}" + " (small)" * stream.small
    return (
        f"| {stream.mixing} | {size} | {100 * stream.churn:g} % | {known} | {len(figures)} "
        f"| {alone.mean():.1f} | **{with_spread(memory)}** | {(memory - alone).min():+.1f} "
        f"| {_smooth(figures)} | {_all(figures, 'stay')[:, SETTLED:].mean():.3f} "
        f"| {spent[0]:.0f} | {spent[1]:.0f} | {spent[1] / spent[0]:.2f} |"
    )


def _smooth(figures: list[Figures]) -> str:
    """NMI of smoothed windows 4 to 7 of 10, which have a past and a future."""
    if "smooth" not in figures[0]:
        return ""
    return f"{100 * _all(figures, 'smooth')[:, 3:7].mean():.1f}"


def _window_rows(stream: Stream, figures: list[Figures]) -> str:
    return "\n".join(
        f"| {stream.mixing} | {name} | "
        + " | ".join(f"{one:.1f}" for one in 100 * _all(figures, key).mean(axis=0))
        + " |"
        for name, key in (("alone", "alone"), ("memory", "memory"), ("smoothed", "smooth"))
    )


def _break_row(stream: Stream, figures: list[Figures]) -> str:
    alone, memory = (100 * _all(figures, key).mean() for key in ("alone", "memory"))
    same = _all(figures, "same")
    return f"| {stream.mixing} | {alone:.2f} | {memory:.2f} | {same.sum():.0f} of {len(same)} |"


def _learned_row(stream: Stream, figures: list[Figures]) -> str:
    stay, seconds = (_all(figures, key).mean() for key in ("stay", "seconds"))
    fitted = [one["mixing"] for one in figures if one["mixing"] is not None]
    mixing = f"{np.mean(fitted):.2f}" if fitted else ""
    return (
        f"| {stream.mixing} | {len(figures)} | {len(figures) - len(fitted)} "
        f"| {mixing} | {stay:.3f} | {_settled(figures, 'alone').mean():.1f} "
        f"| **{with_spread(_settled(figures, 'memory'))}** | {seconds:.0f} |"
    )


def _peer_rows(known: Known, peers: Sequence[str], stream: Stream) -> Iterator[str]:
    ours = _of(known, stream.name)
    for name, key in (("detection alone", "alone"), ("**memory**", "memory")):
        if ours:
            spent = _all(ours, "milliseconds").mean(axis=0)[int(key == "memory")] / 1000
            yield _peer_row(name, _all(ours, key), "its past" * (key == "memory"), spent)
    if ours:
        spent = _all(ours, "smooth_milliseconds").mean() / 1000
        yield _peer_row("**smoothed**", _all(ours, "smooth"), "all", spent)
    for name in peers:
        theirs = _of(known, name)
        if theirs:
            sees = "all" if name.startswith("multilayer") else "its past"
            yield _peer_row(name, _all(theirs, "peer"), sees, _all(theirs, "seconds").mean())


def _peer_row(name: str, scores: NDArray[np.float64], sees: str, seconds: float) -> str:
    middle, newest = 100 * scores[:, 3:7].mean(), 100 * scores[:, -1]
    shown = f"{middle:.1f} | {with_spread(newest)}"
    return f"| {name} | {sees} | {len(scores)} | {shown} | {seconds:.2f} |"


def _real_row(name: str, figures: Figures) -> str:
    def pair(key: str, factor: float, digits: int) -> str:
        return " | ".join(f"{factor * value:.{digits}f}" for value in figures[key])

    score = pair("nmi", 100, 1) if figures["labelled"] else " | "
    return (
        f"| {name} | {figures['windows']} | {pair('churn', 100, 1)} | {pair('modularity', 1, 4)} "
        f"| {pair('hidden', 1, 3)} | {score} |"
    )


HEADER = """\
# What memory between windows gains

For those who detect communities window by window: how much better and steadier the communities
become if detection uses the results of earlier windows of the same graph. How memory behaves in a
running detector is described in [stream_memory.md](../stream_memory.md).

Without memory, each window is detected alone, and most of what earlier windows showed is lost. With
memory, detection sees the edges of recent windows, too, and starts from the communities of the last
one ([how it works](../method.md#streams)). Ids of communities stay the same from window to window.
*Smoothing* is for past windows, as in a replay: it uses the windows after each window too. In
Python: `stream_icd.methods.memory.detect.detect_remembering` and
`stream_icd.methods.memory.smoothing.detect_smoothed`.

Made by `python -m benchmarks.memory --data FOLDER`. The quality of communities is their normalised
mutual information (NMI) with the true ones, in percent. K, the number of communities, is unknown
unless the table says "given".

## Simulated streams

Each stream has 10 windows of an LFR graph. μ is the fraction of the edges that leave their
community: at 0.3, communities are clear; at 0.8, a single window shows nothing. Between two
windows, the given fraction of the nodes moves to another community (churn), and communities merge,
split, begin and end. All edges are drawn anew in each window. The parameters fit the graphs:
resolution n / 440, the true μ. "Small" are 6,500 nodes in about 560 small communities with 5 edges
per node on average, as in the streams of Greene, Doyle and Cunningham (2010), but by our own
generator.

Choices were made on other streams. Columns:

- *streams*: how many streams the means are over.
- *alone*, *memory*: NMI from the fifth window on; ± is the standard deviation over the streams,
  here and below.
- *least*: memory minus alone in the stream where memory helps least.
- *smoothed*: NMI of windows 4 to 7 when all 10 are known.
- *stays*: the fraction of the nodes that stay in their community, as memory estimates it.
- *ms*: milliseconds of CPU per window, alone, then with memory, and their ratio; measured while
  other programs ran.

| μ | nodes | churn | K | streams | alone | memory | least | smoothed | stays | ms | ms | ratio |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""

BY_WINDOW = """
NMI by window, 5,000 nodes, 2 % churn; means over the same streams. The first window has no past,
the last has no future.

| μ | | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |
|---|---|---|---|---|---|---|---|---|---|---|---|"""

BREAK = """
## All communities change at once

If a graph has nothing in common with its past, memory notices and detects the window alone. NMI of
the first window after a complete change, and how often both results have the same bytes:

| μ | alone | memory | same bytes |
|---|---|---|---|"""

LEARNED = """
## Learned without labels

All parameters, learned from five consecutive windows of one stream without labels (`stream-icd
train`), and NMI on another stream from the fifth window on. *Searched*: streams of which no μ was
learned, since a search in each window explains more. η is the probability that a node stays in
its community from one window to the next. Seconds of CPU for learning.

| μ | streams | searched | μ learned | η learned | alone | **memory** | seconds |
|---|---|---|---|---|---|---|---|"""

PEERS = """
## Other methods for sequences of graphs

5,000 nodes, μ 0.6, 2 % churn, 10 windows. *Multilayer Leiden* is leidenalg's
`find_partition_temporal`: modularity over all windows at once, with links of the given weight
between the copies of a node, at resolution 1 (at ours, it finds less). *Smoothed Louvain* is
tnetwork's: each window starts from the communities of the last one. *Online label propagation*
starts from the labels of the last window; here all nodes end in one community. NMI of windows 4 to
7, NMI of the newest window, and seconds of CPU per window.

| method | sees | streams | middle | newest | seconds |
|---|---|---|---|---|---|"""

REAL = """
## Real streams

With default parameters (modularity at resolution 1); each pair of columns is alone, then with
memory; means over windows.

- *churn*: the fraction of the nodes of two consecutive windows that change community, in percent.
- *Q*: modularity.
- *hidden*: how well communities predict edges that were hidden from them, in bits per edge.
- *NMI*: with the known classes, where there are any.

The *dynamic* graphs are by Greene's generator. In the high school, communities of the contacts of
one hour are compared with school classes.

| stream | windows | churn | memory | Q | memory | hidden | memory | NMI | memory |
|---|---|---|---|---|---|---|---|---|---|"""
