"""With memory and its ids, planted events are found in graphs, not only in true labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stream_icd.core.events import CommunityEvents
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.detect import detect_window
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr
from stream_icd.methods.tracking.track import remember, track
from tests.testbed.planted_events import Score, Step, score_late
from tests.testbed.windows import window

N_NODES, MIXING = 2000, 0.3


def detected() -> tuple[Step, ...]:
    """A stream of graphs, detected with memory and tracked by its ids."""
    parameters = BpParameters(N_NODES / 440, MIXING, iterations=1)
    settings = LfrSettings(n_nodes=N_NODES, mixing=MIXING)
    memory, nodes = None, pa.array(np.arange(N_NODES))
    recent: tuple[CommunityEvents, ...] = ()
    steps = []
    for hour, (graph, drift) in enumerate(generate_drifting_lfr(4, 14, settings, 0.02, 0.3)):
        at = window(hour, graph.communities).window
        found = detect_window(graph.adjacency(), nodes, at, parameters, memory)
        memory = found.memory
        tracked = track(recent, window(hour, found.communities, ids=found.community_ids))
        assert (tracked.communities == found.community_ids[found.communities]).all()
        recent = remember(recent, tracked)
        steps.append(Step(drift, drift.identities[graph.communities], tracked))
    return tuple(steps)


def test_planted_events_are_found_in_graphs() -> None:
    """`benchmarks.tracking_memory` measures it on more streams."""
    score = score_late(detected(), first=4, latest=3)
    found, missed, invented = counts(score)
    assert found >= 5
    assert 2 * found / (2 * found + missed + invented) >= 0.9
    assert score.delays[2] + score.delays[3] <= 0.05 * found


def counts(score: Score) -> tuple[int, int, int]:
    found, missed, invented = (sum(n.values()) for n in (score.found, score.missed, score.invented))
    return found, missed, invented


def steps(*truths: list[int], drifts: dict[int, Drift]) -> list[Step]:
    """True labels, tracked; what was planted in each window as given."""
    recent: tuple[CommunityEvents, ...] = ()
    made = []
    for hour, truth in enumerate(truths):
        tracked = track(recent, window(hour, truth))
        recent = remember(recent, tracked)
        drift = drifts.get(hour, Drift(np.unique(truth), np.empty(0, np.int64)))
        made.append(Step(drift, np.array(truth), tracked))
    return made


def test_an_event_reported_late_counts_once_within_the_limit() -> None:
    apart, together = [0] * 10 + [1] * 10 + [2] * 10, [0] * 20 + [2] * 10
    merger = Drift(np.array([0, 2]), np.empty(0, np.int64), merges=((1, 0),))
    stream = steps(apart, apart, together, drifts={1: merger})  # planted in 1, reported in 2
    assert counts(score_late(stream, latest=1)) == (1, 0, 0)
    assert score_late(stream, latest=1).delays == {1: 1}
    assert score_late(stream, latest=1).on_time() == 1
    assert counts(score_late(stream, latest=0)) == (0, 1, 1)
    in_time = steps(apart, apart, together, drifts={2: merger})
    assert score_late(in_time).delays == {0: 1}
