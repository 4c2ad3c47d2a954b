"""What each rule of detection with memory brings: what leaving it out costs.

    python -m benchmarks.rules --data FOLDER [--seeds 2]

FOLDER holds labelled/ and as733.parquet. A rule is left out by putting something in its place that
does nothing. Only streams and seeds for choosing are used. Writes a section of
docs/measured/rules.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.shared.commit import measured_at
from benchmarks.shared.left_out import left_out
from benchmarks.shared.pages.rule_table import compare_rules, cost_table
from benchmarks.shared.pages.sections import write_section
from benchmarks.tracking import snapshots
from benchmarks.tracking_memory import (
    SETTLED,
    Stream,
    days_with_memory,
    followed,
    summed,
    tracked,
    with_memory,
)
from stream_icd.core.arrays import Labels
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.bp.agglomeration import agglomerate
from stream_icd.methods.bp.description_moves import moved_by_description
from stream_icd.methods.bp.find import found_exactly
from stream_icd.methods.bp.level_graph import LevelGraph
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import MeasuredPartition, measured
from stream_icd.methods.bp.prior import MOST_TRUST, OVERCONFIDENCE
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.horizon import FILTER, PRESENCE, SIDE_BY_SIDE
from tests.testbed.planted_events import score_late

POSTERIOR, FOLLOW = "stream_icd.methods.bp.posterior", "stream_icd.methods.memory.follow"
BELIEFS, HORIZON = "stream_icd.methods.bp.belief_propagation", "stream_icd.methods.memory.horizon"
JUDGE, SUMS = "stream_icd.methods.memory.judge", "stream_icd.methods.memory.sums"


def _merged_by_description(graph: LevelGraph, labels: Labels, n: int, *_: Any) -> Labels:
    numbers = np.unique(labels, return_inverse=True)[1]
    united, into = agglomerate(graph, numbers.astype(np.int32)), np.arange(n, dtype=np.int32)
    _, first = np.unique(united, return_index=True)
    into[labels] = labels[first][united]
    return into


def _always_refined(
    graph: LevelGraph, labels: Labels, rng: np.random.Generator
) -> MeasuredPartition:
    return measured(graph, moved_by_description(graph, labels, rng))


def _found_fully(graph: LevelGraph, rng: np.random.Generator) -> Labels:
    return found_exactly(graph, BpParameters(search=True), None, rng).labels


RULES: dict[str, dict[str, Any]] = {
    "merging": {
        f"{POSTERIOR}.merged_communities": lambda _graph, _labels, n, *_: np.arange(
            n, dtype=np.int32
        )
    },
    "merging: while it shortens (2) instead": {
        f"{POSTERIOR}.merged_communities": _merged_by_description
    },
    "splitting": {f"{POSTERIOR}.split_communities": lambda _graph, labels, *_, **__: labels},
    "births of known nodes": {
        f"{POSTERIOR}._are_strangers": lambda _graph, likeliest, _: likeliest < 0
    },
    "the filter": {f"{HORIZON}.SIDE_BY_SIDE": tuple(k for k in SIDE_BY_SIDE if k != FILTER)},
    "presence": {f"{HORIZON}.SIDE_BY_SIDE": tuple(k for k in SIDE_BY_SIDE if k != PRESENCE)},
    "all sums but the longest": {f"{HORIZON}.SIDE_BY_SIDE": SIDE_BY_SIDE[:2]},
    "exponents of sums": {
        f"{HORIZON}.SIDE_BY_SIDE": tuple(k._replace(between=0.5) for k in SIDE_BY_SIDE)
    },
    "a window that explains itself better": {f"{FOLLOW}._alone_if_broken": lambda *_: None},
    "the handicap of shorter sums": {f"{JUDGE}.HANDICAP": 0.0},
    "the margin of the filter": {f"{JUDGE}.MARGIN": 0.0},
    "the filter in the second window": {f"{FOLLOW}._filter_takes_over": lambda *_: None},
    "several searches in the first windows": {f"{FOLLOW}._N_SEARCHES": 1},
    "the rest of sums after a search": {f"{FOLLOW}._rest": lambda *_: 0},
    "followers at once if the leader is shaken": {f"{JUDGE}.SHAKEN": 0.0},
    "pauses": {f"{FOLLOW}._pause": lambda _: 0, f"{FOLLOW}._LONGEST_PAUSE": 0},
    "the best of both after a search": {f"{SUMS}._common_pieces": lambda last, _: last},
    "moves that shorten": {f"{SUMS}._refined": lambda graph, labels, _: measured(graph, labels)},
    "no moves where no bits are saved": {f"{SUMS}._refined": _always_refined},
    "quick searches: full ones instead": {f"{SUMS}._found_quickly": _found_fully},
    "the exponent of η": {f"{BELIEFS}.trusted": lambda stay: min(stay, MOST_TRUST)},
    "the limit of η": {f"{BELIEFS}.trusted": lambda stay: stay**OVERCONFIDENCE},
}
"""What stands in for each rule, by what it replaces."""

STREAMS = (
    "high school 2012, days",
    "brain",
    "workplace_hours",
    "basketball_weeks",
    "un_votes",
    "ants_1",
    "hospital",
    "LFR μ .6, 1,000 nodes, 2 %",
    "LFR μ .6, 500 nodes",
    "LFR μ .6, 5,000 nodes",
    "LFR μ .7, 5,000 nodes",
    "LFR μ .6, complete",
)

EVENTS = (Stream(0.3, 2000), Stream(0.5, 2000), Stream(0.6, 2000))
"""Streams with planted births, deaths, mergers and splits; seeds from 0 on are for choosing."""

HEAD = """What leaving out a rule costs, in AMI from the second quarter of the windows on (mean of
{seeds} seeds where the stream is drawn, ± standard deviation of the difference). *CPU*: the
processor time without it, of a window in the median, in place of 1 with it (mean of the streams):

"""

EVENTS_HEAD = """
F1 of planted births, deaths, mergers and splits, by the mixing of the graphs (2,000 nodes, {seeds}
streams each), and how many births, mergers and splits {days} days of the Internet have:

| left out | {mixings} | Internet |
|---|{bars}
"""


def main() -> None:
    """Measure all, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the real data")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    rules = {"nothing": detect_remembering, **{name: _without(name) for name in RULES}}
    days = list(snapshots(options.data / "as733.parquet"))
    with threadpool_limits(1):
        events = EVENTS_HEAD.format(
            seeds=options.seeds,
            mixings=" | ".join(f"μ {one.mixing}" for one in EVENTS),
            bars="---|" * (len(EVENTS) + 1),
            days=len(days),
        )
        for name in rules:
            f1 = [f"{_events_f1(name, stream, options.seeds):.3f}" for stream in EVENTS]
            seen = _internet_events(name, days)
            events += f"| {name} | {' | '.join(f1)} | {seen} |\n"
            print(name, *f1, seen, flush=True)
        found = compare_rules(rules, options.data, options.seeds, STREAMS)
    table = HEAD.format(seeds=options.seeds) + cost_table(found)
    write_section("measured/rules.md", "rules.py", f"{table}{events}\n{measured_at()}")


def _without(name: str) -> Callable[..., Remembered]:
    def detect(*given: Any, **options: Any) -> Remembered:
        with left_out(RULES.get(name, {})):
            return detect_remembering(*given, **options)

    return detect


def _events_f1(name: str, stream: Stream, n_seeds: int) -> float:
    with left_out(RULES.get(name, {})):
        steps = [tracked(with_memory(stream, seed)) for seed in range(n_seeds)]
    return summed([score_late(step, SETTLED, 1) for step in steps]).f1()


def _internet_events(name: str, days: Sequence[Snapshot]) -> int:
    with left_out(RULES.get(name, {})):
        kinds = followed(days_with_memory(days)).kinds()
    return sum(kinds[kind] for kind in ("born", "merged", "split"))


if __name__ == "__main__":
    main()
