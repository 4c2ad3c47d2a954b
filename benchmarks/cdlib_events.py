"""The tracker's events beside CDlib's, on the same partitions.

    python -m benchmarks.cdlib_events --data as733.parquet [--seeds 10] [--days 150]

CDlib is in the extras `bench` and `dev`. Writes the last section of docs/measured/tracking.md.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

from benchmarks.shared.commit import measured_at
from benchmarks.shared.pages.sections import write_section
from benchmarks.shared.peers.cdlib_peer import (
    LIVES_ON,
    Lives,
    Reported,
    asur,
    facets,
    greene,
    groups_of,
    published_asur,
    reported_by_tracker,
)
from benchmarks.tracking import (
    CHURN,
    EVENT_RATE,
    N_NODES,
    N_STEPS,
    START,
    Detect,
    Labels,
    detected_days,
    scrambled,
    window,
)
from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph
from stream_icd.methods.tracking.track import TrackSettings, remember, track
from tests.testbed.planted_events import PLANTED, overlaid

THEIRS: dict[str, Callable[[Lives], Reported]] = {
    "Greene": greene,
    "Asur": asur,
    "Asur as published": published_asur,
    "facets": facets,
}
KINDS = (*PLANTED, LIVES_ON)
OTHERS = ("merged", "split")
"""Events in which others take part."""
TIMED = ("ours", "Greene", "Asur", "facets")
TRUE = "true labels"
NOISE, ABSENT = 0.05, 1 / 3
LONGEST_GAP = 12
"""Days that are missing on end in AS-733, at most."""
TOWARDS_GREENE = (
    ("both definitions unchanged", TrackSettings(), False),
    ("CDlib sees only nodes of both windows", TrackSettings(), True),
    ("no `part`: only similarity counts", TrackSettings(part=1), True),
    ("no `smallest`: no community is too small", TrackSettings(part=1, smallest=1), True),
    ("no limit for gaps", TrackSettings(part=1, smallest=1, absence=LONGEST_GAP), True),
)


@dataclass
class Agreement:
    """Events that two report, by kind.

    Attributes:
        both, first, second: events reported by both, by the first only, by the second only.
        same: of those that both report, how many with the same others taking part.
    """

    both: Counter[str] = field(default_factory=Counter)
    first: Counter[str] = field(default_factory=Counter)
    second: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)

    def add(self, first: Reported, second: Reported) -> None:
        both = first.keys() & second.keys()
        self.both.update(kind for kind, _ in both)
        self.first.update(kind for kind, _ in first.keys() - both)
        self.second.update(kind for kind, _ in second.keys() - both)
        self.same.update(event[0] for event in both if first[event] == second[event])

    def counts(self, kind: str) -> str:
        same = f" ({self.same[kind]})" if kind in OTHERS and self.same[kind] else ""
        return f"{self.both[kind]}{same} / {self.first[kind]} / {self.second[kind]}"


@dataclass
class Comparison:
    """Each of CDlib's definitions beside ours, and each beside what was planted."""

    ours: dict[str, Agreement] = field(default_factory=lambda: agreements(THEIRS))
    truth: dict[str, Agreement] = field(default_factory=lambda: agreements(["ours", *THEIRS]))
    seconds: Counter[str] = field(default_factory=Counter)
    steps: int = 0

    def add(self, events: Mapping[str, Reported]) -> None:
        self.steps += 1
        for name, agreement in self.ours.items():
            agreement.add(events["ours"], events[name])


def agreements(names: Iterable[str]) -> dict[str, Agreement]:
    return {name: Agreement() for name in names}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, required=True, help="as733.parquet")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--days", type=int, default=150)
    chosen = options.parse_args()
    planted = {name: on_planted(chosen.seeds, *how) for name, how in CASES.items()}
    windows = list(islice(detected_days(chosen.data), chosen.days))
    internet = on_windows(windows)
    sections = [
        VOCABULARY,
        planted_section(planted, chosen.seeds),
        agreement_section(planted[TRUE], internet),
        why_section(windows),
        seconds_section(planted[TRUE], internet),
    ]
    write_section("measured/tracking.md", "cdlib_events.py", "\n".join([*sections, measured_at()]))


def as_planted(graph: PlantedGraph, _: np.random.Generator) -> Labels:
    return graph.communities


CASES: dict[str, tuple[Detect, float]] = {
    TRUE: (as_planted, 0.0),
    f"{NOISE:.0%} of the nodes in a random community": (scrambled(NOISE), 0.0),
    "a third of the nodes absent, others each time": (as_planted, ABSENT),
}


def on_planted(seeds: int, detect: Detect, absent: float) -> Comparison:
    """The streams of benchmarks/tracking.py; in each window a share of the nodes is `absent`."""
    comparison = Comparison()
    for seed in range(seeds):
        stream = list(planted_stream(seed, detect, absent))
        reported_by_step = reported_each_step((found for found, _ in stream), comparison.seconds)
        drifts = pairwise(drift for _, drift in stream)
        for events, (before, after) in zip(reported_by_step, drifts, strict=True):
            comparison.add(events)
            planted = planted_events_of(before, after)
            for name, agreement in comparison.truth.items():
                agreement.add(planted, apart(events[name], before, after))
    return comparison


def on_windows(windows: Iterable[Communities]) -> Comparison:
    comparison = Comparison()
    for events in reported_each_step(windows, comparison.seconds):
        comparison.add(events)
    return comparison


def planted_stream(seed: int, detect: Detect, absent: float) -> Iterator[tuple[Communities, Drift]]:
    rng = np.random.default_rng(seed)
    settings = LfrSettings(n_nodes=N_NODES)
    stream = generate_drifting_lfr(seed, N_STEPS, settings, CHURN, EVENT_RATE)
    for day, (graph, drift) in enumerate(stream):
        labels = detect(graph, rng)
        there = np.flatnonzero(rng.random(len(labels)) >= absent)
        yield window(START + timedelta(days=day), labels[there], pa.array(there)), drift


def planted_events_of(before: Drift, after: Drift) -> Reported:
    """What was planted between two windows; events that share a community are left out."""
    was, now = labels_of(before), labels_of(after)
    tangled = overlaid(after)
    merges = [pair for pair in after.merges if not tangled & {*pair}]
    splits = [pair for pair in after.splits if not tangled & {*pair}]
    events: Reported = {
        ("merged", now[into]): frozenset({was[one], was[into]}) for one, into in merges
    }
    events |= {("split", was[out_of]): frozenset({now[out_of], now[one]}) for out_of, one in splits}
    events |= {("born", now[birth]): frozenset() for birth in after.births if birth not in tangled}
    events |= {("died", was[death]): frozenset() for death in after.deaths if death not in tangled}
    return events


def labels_of(drift: Drift) -> dict[int, int]:
    return {identity: label for label, identity in enumerate(drift.identities.tolist())}


def apart(events: Reported, before: Drift, after: Drift) -> Reported:
    """Without what befell communities of which several events were planted at once."""
    tangled = overlaid(after)
    return {
        (kind, label): others
        for (kind, label), others in events.items()
        if kind in PLANTED
        and (before if kind in ("split", "died") else after).identities[label] not in tangled
    }


def reported_each_step(
    windows: Iterable[Communities], seconds: Counter[str]
) -> Iterator[dict[str, Reported]]:
    """What each definition tells of each window and the one before."""
    for (before, was), (after, now) in pairwise(tracked(windows, seconds=seconds)):
        groups = groups_of(before), groups_of(after)
        started = process_time()
        lives = Lives(*groups)
        seconds.update(dict.fromkeys(THEIRS, process_time() - started))
        events = {"ours": reported_by_tracker(was, now)}
        for name, definition in THEIRS.items():
            started = process_time()
            events[name] = definition(lives)
            seconds[name] += process_time() - started
        yield events


def tracked(
    windows: Iterable[Communities],
    settings: TrackSettings | None = None,
    seconds: Counter[str] | None = None,
) -> Iterator[tuple[Communities, CommunityEvents]]:
    settings, seconds = settings or TrackSettings(), Counter() if seconds is None else seconds
    recent: tuple[CommunityEvents, ...] = ()
    for found in windows:
        started = process_time()
        events = track(recent, found, settings)
        seconds["ours"] += process_time() - started
        recent = remember(recent, events, settings)
        yield found, events


def with_greene(
    windows: Iterable[Communities], settings: TrackSettings, *, shared: bool
) -> Agreement:
    """Ours by other settings beside Greene et al.'s, on all nodes or on those of both windows."""
    agreement = Agreement()
    for (before, was), (after, now) in pairwise(tracked(windows, settings)):
        among = {*before.nodes.to_pylist()} & {*after.nodes.to_pylist()} if shared else None
        lives = Lives(groups_of(before, among), groups_of(after, among))
        agreement.add(reported_by_tracker(was, now), greene(lives))
    return agreement


VOCABULARY = """The tracker and CDlib compared on the same partitions, window by window. Written by
`python -m benchmarks.cdlib_events --data as733.parquet`. Thresholds are the tracker's: θ = 0.3 for
Greene et al., κ = 0.5 for Asur et al. Corresponding events (for facets, the likeliest ones):

tracker | Greene et al. | Asur et al., as CDlib has them | CDlib's facets
--- | --- | --- | ---
merged | merge: several match it | Merge | Merge, Expansion
split | split: it matches several | Split | Split, Reduction
born, not from other communities | birth: none matches it | Birth (form): none of its nodes was \
present | Birth, Accumulation, Reorganization
died | death: it matches none | Death (dissolve): none of its nodes is present \
| Death, Dispersion, Disassemble
lives on (continued, grown, shrunk) | one matches it, and only it | Continuation: the same nodes \
| Continuation, Growth
born from other communities; absorbed | (reported as split or merge) | (the same) \
| Offspring; Ancestor

For Greene et al., CDlib provides the matches; the events follow from them by the rules of the
paper, with a death after one window without a match. CDlib's Asur only requires that two
communities together have more than κ of the whole. *Asur as published* keeps only those of its
events in which each community also has more than half of its nodes in the whole.
`LifeCycle.compute_events("asur")` raises a KeyError at the first birth or death, so the function
that it calls is used.
"""


def planted_section(planted: Mapping[str, Comparison], seeds: int) -> str:
    rows = "\n".join(
        f"{case}: {kind} | " + " | ".join(a.counts(kind) for a in comparison.truth.values())
        for case, comparison in planted.items()
        for kind in PLANTED
    )
    return f"""### Simulated events

{seeds} of the streams above, events that are not tangled. Numbers of events found / missed /
invented, identified by the community that resulted from a merger or birth, or that split or died.
In brackets: found with the right other communities.

{table_head("labels: event", "tracker", *THEIRS)}
{rows}

- **Greene et al.** miss mergers of communities of unequal size and report the smaller one as
  dead, because its Jaccard index with the whole is below θ. The tracker, like Asur et al., also
  checks whether more than half of its nodes are in the whole.
- **Greene et al. and Asur et al.** compare all nodes. If a third is absent in each window,
  unchanged communities have a Jaccard index near 0.5, and parts of them one below θ. So they miss
  events and invent births and deaths. The tracker compares only the nodes present in both
  windows.
- **Asur in CDlib** reports a merger if a community takes in one node of another, because the two
  together are still nearly the whole. The second condition of the paper removes all of these.
- **Asur's births and deaths** need nodes that appear and disappear. There are none if communities
  form from nodes of others, or scatter.
- **Facets** ask whether the second largest part is almost as large as the largest. So a small
  community that merges into a large one is not a merger, but taking in a few nodes of a scattered
  one is.
"""


def agreement_section(planted: Comparison, internet: Comparison) -> str:
    rows = "\n".join(
        f"{case}: {kind} | " + " | ".join(a.counts(kind) for a in comparison.ours.values())
        for case, comparison in (("simulated", planted), ("Internet", internet))
        for kind in KINDS
    )
    return f"""### Event by event

Numbers of events reported by both / only by the tracker / only by the other, on the simulated
streams with true labels, and on the first {internet.steps + 1} days of the Internet. In brackets:
events of both with the same other communities; facets name none.

{table_head("event", *THEIRS)}
{rows}

For Asur, a community continues only if it has exactly the same nodes; for the tracker, it may
lose and gain some. Asur's mergers have two communities that together make up more than half of
the whole. This is not so if many merge, or if half of a large one joins a small one. The tracker
checks each community by itself. The other differences are those above.
"""


def why_section(windows: Sequence[Communities]) -> str:
    rungs = {
        name: with_greene(windows, settings, shared=shared)
        for name, settings, shared in TOWARDS_GREENE
    }
    rows = "\n".join(
        f"{name} | " + " | ".join(agreement.counts(kind) for kind in KINDS)
        for name, agreement in rungs.items()
    )
    last = [*rungs.values()][-1]
    return f"""### Why the results differ from Greene et al.

The days of the Internet again, with one difference between the definitions removed after the
other. Each row includes the rows above it:

{table_head("definitions", *KINDS)}
{rows}

In the last row, {last.first.total() + last.second.total()} events are reported by one of
the two only.
"""


def seconds_section(planted: Comparison, internet: Comparison) -> str:
    def cells(comparison: Comparison) -> str:
        return " | ".join(
            f"{1000 * comparison.seconds[name] / comparison.steps:.1f}" for name in TIMED
        )

    return f"""### Milliseconds per window

{table_head("streams", "tracker", *TIMED[1:])}
simulated | {cells(planted)}
Internet | {cells(internet)}

The tracker's time includes stable ids over gaps and absences. CDlib's time excludes the
conversion of communities to sets.
"""


def table_head(*names: str) -> str:
    return f"{' | '.join(names)}\n{' | '.join('---' for _ in names)}"


if __name__ == "__main__":
    main()
