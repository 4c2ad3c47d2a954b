"""Events in graphs that are detected with memory: planted ones, and those of the Internet.

    python -m benchmarks.tracking_memory --data as733.parquet [--seeds 5] [--days 180]
    python -m benchmarks.tracking_memory --data as733.parquet --only internet

Writes docs/alluvial.png and a section of docs/measured/tracking.md. Choices were made on seeds
below 100; reported are seeds from 9000 on.
"""

from __future__ import annotations

import argparse
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.shared.commit import measured_at
from benchmarks.shared.graphs.data_sets import TEST_SEED
from benchmarks.shared.pages.sections import DOCS, write_section
from benchmarks.shared.streams.known_streams import snapshot_of
from benchmarks.tracking import (
    CHURN,
    EVENT_RATE,
    HOUR,
    MONTH,
    N_STEPS,
    START,
    churn,
    least_churn,
    snapshots,
    unbroken_month,
    window,
)
from stream_icd.core.communities import Communities
from stream_icd.core.events import EVENT_KINDS, CommunityEvents
from stream_icd.core.snapshot import Snapshot
from stream_icd.interfaces.view.alluvial import colours_of, draw_bands
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import detect_remembering
from stream_icd.methods.model import Model
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.methods.tracking.track import remember, track
from stream_icd.registry.find import open_model
from tests.testbed.planted_events import PLANTED, Score, Step, score_late

SETTLED, LATEST = 4, 3
STREAMS = [
    *((mixing, 2000) for mixing in (0.3, 0.4, 0.5, 0.6, 0.7)),
    *((mixing, 5000) for mixing in (0.3, 0.6)),
]

Found = Iterable[tuple[PlantedGraph, Drift, Communities]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="as733.parquet")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--days", type=int, default=180, help="how many of the last days")
    options.add_argument("--only", choices=("graphs", "internet"), help="only this section")
    chosen = options.parse_args()
    if chosen.only != "internet":
        text = f"{graphs_section(chosen.seeds)}\n{measured_at()}"
        write_section("measured/tracking.md", "tracking_memory", text)
    if chosen.only != "graphs":
        text = f"{internet_section(chosen.data, chosen.days)}\n{measured_at()}"
        write_section("measured/tracking.md", "tracking_memory internet", text)


@dataclass(frozen=True)
class Stream:
    """A kind of drifting LFR stream, and the parameters that its graphs are detected with."""

    mixing: float
    n_nodes: int

    @property
    def parameters(self) -> BpParameters:
        """Those of docs/measured/memory.md: γ near a seventh of the number of communities."""
        return BpParameters(
            max(self.n_nodes / 440, 2.0), self.mixing, size_spread=1.0, iterations=1
        )

    def graphs(self, seed: int) -> Iterator[tuple[PlantedGraph, Drift]]:
        settings = LfrSettings(n_nodes=self.n_nodes, mixing=self.mixing)
        return generate_drifting_lfr(seed, N_STEPS, settings, CHURN, EVENT_RATE)


def alone(stream: Stream, seed: int) -> Found:
    """Each window detected by itself."""
    for hour, (graph, drift) in enumerate(stream.graphs(seed)):
        labels = find_communities(graph.adjacency(), stream.parameters)
        yield graph, drift, window(START + hour * HOUR, labels)


def with_memory(stream: Stream, seed: int) -> Found:
    """Each window detected with the memory of the one before; with ids."""
    model, memory = Model(preset("AS"), stream.parameters), None
    for hour, (graph, drift) in enumerate(stream.graphs(seed)):
        found = detect_remembering(snapshot_of(graph, hour), model, memory)
        memory = found.memory
        communities = window(START + hour * HOUR, found.communities)
        yield (
            graph,
            drift,
            replace(communities, community_ids=found.community_ids, replaced=found.replaced),
        )


def without_ids(found: Found) -> Found:
    """The same communities; they are matched by their nodes."""
    for graph, drift, communities in found:
        yield graph, drift, replace(communities, community_ids=None, replaced=None)


def tracked(found: Found) -> list[Step]:
    """What the tracker reports of each window."""
    recent: tuple[CommunityEvents, ...] = ()
    steps = []
    for graph, drift, communities in found:
        events = track(recent, communities)
        recent = remember(recent, events)
        steps.append(Step(drift, drift.identities[graph.communities], events))
    return steps


def summed(scores: Sequence[Score]) -> Score:
    total = Score()
    for kind in PLANTED:
        for name in ("found", "missed", "invented"):
            getattr(total, name)[kind] = sum(getattr(score, name)[kind] for score in scores)
    total.delays.update(chain.from_iterable(score.delays.elements() for score in scores))
    return total


def graphs_section(n_seeds: int) -> str:
    """Planted events in graphs, by how these were detected."""
    seeds = range(TEST_SEED, TEST_SEED + n_seeds)
    rows, kinds = [], []
    for mixing, n_nodes in STREAMS:
        stream = Stream(mixing, n_nodes)
        for name, streams in _detected(stream, seeds).items():
            strict, lenient, whole = (
                summed([score_late(one, first, latest) for one in streams])
                for first, latest in ((SETTLED, 1), (SETTLED, LATEST), (1, 1))
            )
            rows.append(_row(stream, name, strict, lenient, whole))
            print(rows[-1], flush=True)
        kinds.append(_kinds_row(stream, strict))
    return GRAPHS.format(
        n_seeds=n_seeds,
        first=seeds[0],
        n_steps=N_STEPS,
        settled=SETTLED + 1,
        latest=LATEST,
        rows="\n".join(rows),
        kinds="\n".join(kinds),
    )


def _detected(stream: Stream, seeds: Iterable[int]) -> dict[str, list[list[Step]]]:
    remembered = [list(with_memory(stream, seed)) for seed in seeds]
    return {
        "alone": [tracked(alone(stream, seed)) for seed in seeds],
        "memory, matched": [tracked(without_ids(one)) for one in remembered],
        "**memory and its ids**": [tracked(one) for one in remembered],
    }


def _row(stream: Stream, name: str, strict: Score, lenient: Score, whole: Score) -> str:
    figures = [strict.precision(), strict.recall(), strict.f1()]
    return (
        f"{stream.mixing} | {stream.n_nodes:,} | {name} | "
        + " | ".join(f"{figure:.3f}" for figure in figures)
        + f" | {lenient.on_time():.1%} | {whole.f1():.3f}"
    )


def _kinds_row(stream: Stream, score: Score) -> str:
    counts = [
        f"{score.found[kind]} / {score.missed[kind]} / {score.invented[kind]}" for kind in PLANTED
    ]
    return f"{stream.mixing} | {stream.n_nodes:,} | " + " | ".join(counts)


@dataclass(frozen=True)
class Followed:
    """Days of the Internet as one detection saw them: what the tracker reported."""

    windows: list[CommunityEvents]

    def churn(self) -> str:
        """Mean share of the nodes whose community has another id the next day."""
        return f"{np.mean([_churn(a, b) for a, b in pairwise(self.windows)]):.1%}"

    def least_churn(self) -> str:
        """The same under the best renaming of each pair of days."""
        return f"{np.mean([least_churn(a, b) for a, b in pairwise(self.windows)]):.1%}"

    def kinds(self, least_bits: float | None = None) -> Counter[str]:
        """Events of each kind, but for the first day's; only those of at least this strength."""
        events = (event for one in self.windows[1:] for event in one.events)
        if least_bits is not None:
            events = (one for one in events if one.bits is not None and one.bits >= least_bits)
        return Counter(event.kind for event in events)


def _churn(before: CommunityEvents, after: CommunityEvents) -> float:
    return churn(before.nodes, before.communities, after.nodes, after.communities)


def followed(found: Iterable[Communities]) -> Followed:
    recent: tuple[CommunityEvents, ...] = ()
    windows = []
    for communities in found:
        windows.append(track(recent, communities))
        recent = remember(recent, windows[-1])
    return Followed(windows)


def days_alone(days: Iterable[Snapshot]) -> Iterator[Communities]:
    parameters = open_model("as").model.bp
    for day in days:
        labels = find_communities(day.adjacency(), parameters)
        yield window(day.window.start, labels, day.nodes)


def days_with_memory(days: Iterable[Snapshot]) -> Iterator[Communities]:
    model, memory = open_model("as").model, None
    for day in days:
        found = detect_remembering(day, model, memory)
        memory, moved = found.memory, found.moved
        communities = window(day.window.start, found.communities, day.nodes)
        yield replace(
            communities,
            community_ids=found.community_ids,
            replaced=found.replaced,
            moved=None if moved is None else moved.pairs,
            moved_bits=None if moved is None else moved.bits,
        )


def internet_section(path: Path, n_days: int) -> str:
    """What the tracker reports of the Internet, each day alone and with memory; and the picture."""
    days = deque(snapshots(path), maxlen=n_days)
    alone, memory = followed(days_alone(days)), followed(days_with_memory(days))
    first = unbroken_month(alone.windows)
    month = slice(first, first + MONTH)
    draw_alluvial(
        {"each day alone": alone.windows[month], "with memory": memory.windows[month]},
        DOCS / "alluvial.png",
    )
    kinds = "\n".join(
        f"{kind} | {alone.kinds()[kind]} | {memory.kinds()[kind]}" for kind in EVENT_KINDS
    )
    return INTERNET.format(
        n_days=len(days),
        churn=f"{alone.churn()} | {memory.churn()}",
        least=f"{alone.least_churn()} | {memory.least_churn()}",
        kinds=kinds,
        month=MONTH,
        start=f"{alone.windows[first].window.start:%d %B %Y}",
        rest=MONTH - 1,
    )


def draw_alluvial(parts: Mapping[str, Sequence[CommunityEvents]], out: Path) -> None:
    """Write the picture: a part a detection, a column a day, a band a community."""
    figure = Figure(figsize=(14, 12), layout="constrained")
    for axes, (title, windows) in zip(figure.subplots(len(parts)), parts.items(), strict=True):
        draw_bands(axes, windows, colours_of(windows))
        step = max(1, len(windows) // 10)
        shown = [f"{one.window.start:%d %b %Y}" for one in windows[::step]]
        axes.set_xticks(range(0, len(windows), step), shown, fontsize=8)
        axes.set_ylabel("autonomous systems")
        axes.set_title(title, loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=90)


GRAPHS = """## In graphs, with memory

The same events in graphs, whose communities must first be found: {n_seeds} streams of {n_steps}
drifting LFR graphs, seeds from {first} on, K unknown, the parameters of
[memory](memory.md). Events that are not tangled, from window {settled} on; the last column
counts all windows. An event counts as found if it is reported in its window or the next one. *On
time*: of the events reported within {latest} windows, those reported in their window or the next
one. Each window is detected alone, or with [memory](memory.md); then communities are
matched by their nodes, or have the ids of memory:

μ | nodes | detection | precision | recall | F1 | on time | F1, all windows
--- | --- | --- | --- | --- | --- | --- | ---
{rows}

By kind of event, with memory and its ids, found / missed / invented:

μ | nodes | merged | split | born | died
--- | --- | --- | --- | --- | ---
{kinds}

At μ 0.7 and 2,000 nodes, memory does not settle before the streams end.
"""

INTERNET = """### On the Internet, with memory

The last {n_days} daily graphs of AS-733, communities detected with the `as` model, for each day
separately and with memory. Churn is defined below; best renaming is its lower bound:

names | each day alone | with memory
--- | --- | ---
churn per day | {churn}
churn per day, best renaming | {least}
{kinds}

![The communities of {month} days, each day alone and with memory](../alluvial.png)

{start} and the {rest} days after it, the last month without a missing day. Each column is a day,
and each band a community; its height is the number of members. The most notable ones are coloured.
Streams show nodes that moved.
"""


if __name__ == "__main__":
    main()
