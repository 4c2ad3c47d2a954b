"""What the tracker finds of planted events, and how steady ids are on the Internet's graphs.

    python -m benchmarks.tracking [--data as733.parquet] [--seeds 10]

Writes its sections of docs/measured/tracking.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from benchmarks.shared.commit import measured_at
from benchmarks.shared.pages.sections import write_section
from stream_icd.core.communities import STAGES, Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.methods.tracking.identities import NodePartition
from stream_icd.methods.tracking.track import remember, track
from stream_icd.registry.find import open_model
from tests.testbed.planted_events import (
    PLANTED,
    Score,
    found_events,
    overlaid,
    planted_events,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NOISE = (0.0, 0.01, 0.02, 0.05, 0.1)
N_NODES, N_STEPS, EVENT_RATE, CHURN = 2000, 30, 0.3, 0.02
MONTH = 31
HOUR = timedelta(hours=1)

Labels = NDArray[np.int32]
Detect = Callable[[PlantedGraph, np.random.Generator], Labels]


@dataclass(frozen=True)
class Scores:
    """Of events that share no community with another of their step, and of those that do."""

    clear: Score
    tangled: Score
    milliseconds: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, help="as733.parquet")
    options.add_argument("--seeds", type=int, default=10)
    chosen = options.parse_args()
    planted = score(chosen.seeds, lambda graph, _: graph.communities)
    parts = planted_section(planted, chosen.seeds), noise_section(chosen.seeds), measured_at()
    write_section("measured/tracking.md", "tracking.py", "\n".join(parts))
    if chosen.data is not None:
        text = f"{internet_section(chosen.data)}\n{measured_at()}"
        write_section("measured/tracking.md", "tracking.py internet", text)


def score(seeds: int, detect: Detect, mixing: float = 0.3) -> Scores:
    """Track `seeds` streams as `detect` sees them, and compare with what was planted."""
    clear, tangled, seconds, steps = Score(), Score(), 0.0, 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        recent: tuple[CommunityEvents, ...] = ()
        truth_before = np.empty(0, np.int64)
        settings = LfrSettings(n_nodes=N_NODES, mixing=mixing)
        stream = generate_drifting_lfr(seed, N_STEPS, settings, CHURN, EVENT_RATE)
        for hour, (graph, drift) in enumerate(stream):
            found = window(START + timedelta(hours=hour), detect(graph, rng))
            started = process_time()
            after = track(recent, found)
            seconds, steps = seconds + process_time() - started, steps + 1
            truth = drift.identities[graph.communities]
            if recent:
                reported = found_events(recent[-1], after, truth_before, truth)
                planted, mixed = planted_events(drift), overlaid(drift)
                apart = {key for key in planted | reported if not key[1] & mixed}
                clear.add(planted & apart, reported & apart)
                tangled.add(planted - apart, reported - apart)
            recent, truth_before = remember(recent, after), truth
    return Scores(clear, tangled, 1000 * seconds / steps)


def window(start: datetime, labels: Labels, nodes: pa.Array | None = None) -> Communities:
    return Communities(
        graph="benchmark",
        snapshot_id=start.isoformat(),
        window=Window(start, start + (timedelta(hours=1) if nodes is None else timedelta(days=1))),
        nodes=pa.array(np.arange(len(labels))) if nodes is None else nodes,
        labels=labels,
        n_edges=1,
        model="benchmark@1",
        modularity=0.0,
        ncut=0.0,
        milliseconds=dict.fromkeys(STAGES, 0.0),
        detected_at=start,
    )


def scrambled(share: float) -> Detect:
    """True communities, but for a share of the nodes: each is in a random one."""

    def detect(graph: PlantedGraph, rng: np.random.Generator) -> Labels:
        labels = graph.communities.copy()
        wrong = rng.choice(len(labels), round(share * len(labels)), replace=False)
        labels[wrong] = rng.integers(0, graph.n_communities, len(wrong))
        return labels

    return detect


def detected(graph: PlantedGraph, _: np.random.Generator) -> Labels:
    parameters = open_model("lfr").model.bp
    return find_communities(as_adjacency(graph), parameters, graph.n_communities)


def planted_section(scores: Scores, seeds: int) -> str:
    rows = "\n".join(
        f"{kind} | {score_row(scores.clear, kind)} | {score_row(scores.tangled, kind)}"
        for kind in PLANTED
    )
    return f"""## Simulated events

{seeds} streams of {N_STEPS} LFR graphs of {N_NODES} nodes; at each step, each kind of event has
the probability {EVENT_RATE}, and {CHURN:.0%} of the nodes may change community. The tracker gets
the true labels, so all errors are its own. An event is *tangled* if it shares a community with
another event of the same step (for example, a community merges into one that splits at the same
time). Then the outcome does not always show what happened. Numbers of events found / missed /
invented:

event | not tangled | tangled
--- | --- | ---
{rows}

F1 is {scores.clear.f1():.3f} and {scores.tangled.f1():.3f}.
Tracking takes {scores.milliseconds:.1f} ms per window.
"""


def score_row(score: Score, kind: str) -> str:
    return f"{score.found[kind]} / {score.missed[kind]} / {score.invented[kind]}"


def noise_section(seeds: int) -> str:
    cases: list[tuple[str, Scores]] = [
        (f"{share:.0%} of the nodes in a random community", score(seeds, scrambled(share)))
        for share in NOISE
    ]
    few = max(1, seeds // 4)
    cases += [
        (
            f"detected (`lfr` model, true K), mixing {mixing}, {few} streams",
            score(few, detected, mixing),
        )
        for mixing in (0.3, 0.6)
    ]
    rows = "\n".join(f"{name} | {noise_row(scores.clear)}" for name, scores in cases)
    return f"""## With imperfect labels

The same streams, events that are not tangled. Precision is the fraction of reported events that are
true, recall the fraction of true events that are reported, F1 their harmonic mean; 1 is perfect.

labels | precision | recall | F1
--- | --- | --- | ---
{rows}
"""


def noise_row(score: Score) -> str:
    found, missed, invented = (
        sum(counts.values()) for counts in (score.found, score.missed, score.invented)
    )
    precision, recall = found / max(1, found + invented), found / max(1, found + missed)
    return f"{precision:.3f} | {recall:.3f} | {score.f1():.3f}"


def detected_days(path: Path) -> Iterator[Communities]:
    """Communities of each day of the AS graphs, as the shipped model finds them."""
    model = open_model("as").model.bp
    for snapshot in snapshots(path):
        labels = find_communities(snapshot.adjacency(), model)
        yield window(snapshot.window.start, labels, snapshot.nodes)


def snapshots(path: Path) -> Iterator[Snapshot]:
    """The AS graph of each day."""
    table = pq.read_table(path).sort_by("window_start")
    starts = table["window_start"].to_numpy()
    bounds = [*np.flatnonzero(np.diff(starts, prepend=starts[0] - 1).astype(int)), len(starts)]
    for first, end in pairwise(bounds):
        day = table.slice(first, end - first)
        start = datetime.combine(day["window_start"][0].as_py(), datetime.min.time(), UTC)
        span = Window(start, start + timedelta(days=1))
        yield snapshot_from_pairs(
            day["src"], day["dst"], graph="as733", id=f"as733/{start:%Y-%m-%d}", window=span
        )


def internet_section(path: Path) -> str:
    recent: tuple[CommunityEvents, ...] = ()
    days: list[CommunityEvents] = []
    raw: list[Communities] = []
    seconds = 0.0
    for found in detected_days(path):
        started = process_time()
        tracked = track(recent, found)
        seconds += process_time() - started
        recent = remember(recent, tracked)
        raw.append(found)
        days.append(tracked)
    churn_raw = [churn(a.nodes, a.labels, b.nodes, b.labels) for a, b in pairwise(raw)]
    churn_stable = [
        churn(a.nodes, a.communities, b.nodes, b.communities) for a, b in pairwise(days)
    ]
    churn_least = [least_churn(a, b) for a, b in pairwise(days)]
    counts: dict[str, int] = {}
    for event in (event for tracked in days[1:] for event in tracked.events):
        counts[event.kind] = counts.get(event.kind, 0) + 1
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(counts.items(), key=lambda kv: -kv[1]))
    living = [np.unique(day.communities) for day in days]
    lives = np.bincount(np.concatenate(living))
    return f"""## On the Internet

{len(days)} daily graphs of autonomous systems (AS-733, Leskovec, Kleinberg, Faloutsos, KDD 2005),
communities detected with the `as` model for each day separately. Churn is the fraction of the
nodes in two consecutive graphs whose community has another name in the second graph:

names | churn per day, mean | churn per day, median
--- | --- | ---
community numbers of the detector | {np.mean(churn_raw):.1%} | {np.median(churn_raw):.1%}
stable ids | {np.mean(churn_stable):.1%} | {np.median(churn_stable):.1%}
the best renaming for each pair of days | {np.mean(churn_least):.1%} | {np.median(churn_least):.1%}

The last row is a lower bound: the nodes that really changed community. It ignores all days before
the previous one.

{days[-1].next_community} stable ids over {len(days)} days, {np.mean([*map(len, living)]):.0f}
communities per day on average; {np.sum(lives > len(days) / 2)} existed on more than half of the
days. {sum(day.missed for day in days)} days are missing in the data; the tracker bridged or
reported them.
Events: {kinds}.
{1000 * seconds / len(days):.1f} ms per day.
"""


def unbroken_month(days: list[CommunityEvents]) -> int:
    """Where the last `MONTH` windows without a missing one, and without half a day, begin."""
    for first in range(len(days) - MONTH, -1, -1):
        month = days[first : first + MONTH]
        sizes = [len(events.nodes) for events in month]
        if not any(events.missed for events in month[1:]) and min(sizes) > max(sizes) / 2:
            return first
    return max(0, len(days) - MONTH)


def least_churn(before: CommunityEvents, after: CommunityEvents) -> float:
    """Share of the nodes of both that move, when `after` is renamed as well as can be."""
    old, new = (NodePartition.by_name(one.nodes, one.communities) for one in (before, after))
    between = old.overlaps(new)
    shared = np.zeros((len(between.old_sizes), len(between.new_sizes)))
    shared[between.old, between.new] = between.shared
    return float(1 - shared[linear_sum_assignment(shared, maximize=True)].sum() / shared.sum())


def churn(a_nodes: pa.Array, a: NDArray, b_nodes: pa.Array, b: NDArray) -> float:
    """Share of the nodes of both whose community is called otherwise in `b`."""
    before, after = (
        NodePartition.by_name(a_nodes, a.astype(np.int64)),
        NodePartition.by_name(b_nodes, b.astype(np.int64)),
    )
    rows, columns = before.shared_nodes(after)
    names = before.names[before.labels[rows]], after.names[after.labels[columns]]
    return float(np.mean(names[0] != names[1]))


if __name__ == "__main__":
    main()
