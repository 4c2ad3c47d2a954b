"""Smoothing: past windows with what the later ones show, and with the ids of forward detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.snapshot import Snapshot, Window, snapshot_from_pairs
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.icd.presets import preset
from stream_icd.methods.memory.detect import Remembered, detect_remembering
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.model import Model
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr

HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
N = 2000
LFR = BpParameters(resolution=4.5, mixing=0.6, iterations=1)
CLIQUES = BpParameters(resolution=2.0, mixing=0.3, iterations=1)


def model(parameters: BpParameters) -> Model:
    return Model(preset("L(f,0.3)"), parameters)


def window(number: float) -> Window:
    return Window(START + number * HOUR, START + (number + 1) * HOUR)


def planted(
    seed: int, n_windows: int, first: int = 0
) -> tuple[list[Snapshot], list[NDArray[np.int32]]]:
    """Windows of a drifting graph and their planted communities."""
    settings = LfrSettings(n_nodes=N, mixing=0.6)
    snapshots, truths = [], []
    for number, (graph, _) in enumerate(generate_drifting_lfr(seed, n_windows, settings)):
        src, dst = graph.edges
        src = pa.array(np.concatenate([src, np.arange(N)]))
        dst = pa.array([*dst.tolist(), *[None] * N], pa.int64())  # nodes without edges count too
        snapshot = snapshot_from_pairs(
            src, dst, graph="g", id=str(number), window=window(first + number)
        )
        snapshots.append(snapshot)
        truths.append(graph.communities)
    return snapshots, truths


def cliques(number: float, *groups: Sequence[int]) -> Snapshot:
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    src, dst = zip(*pairs, strict=True)
    return snapshot_from_pairs(src, dst, graph="g", id=f"g/{number}", window=window(number))


def forward(snapshots: Sequence[Snapshot], parameters: BpParameters) -> list[Remembered]:
    found: list[Remembered] = []
    for snapshot in snapshots:
        memory = found[-1].memory if found else None
        found.append(detect_remembering(snapshot, model(parameters), memory))
    return found


def ids(one: Remembered) -> list[int]:
    """The community id of each node."""
    return [int(each) for each in one.community_ids[one.communities]]


def test_the_future_improves_the_past() -> None:
    snapshots, truths = planted(7, 7)
    ahead = [
        nmi(truth, one.communities)
        for truth, one in zip(truths, forward(snapshots, LFR), strict=True)
    ]
    both = [
        nmi(truth, one.communities)
        for truth, one in zip(truths, detect_smoothed(snapshots, model(LFR)), strict=True)
    ]
    assert ahead[0] < 0.65
    assert min(both[:-1]) > 0.94
    assert 1 - np.mean(both[2:5]) < 0.55 * (1 - np.mean(ahead[2:5]))


def test_smoothed_communities_have_the_ids_of_forward_detection() -> None:
    snapshots, _ = planted(7, 6)
    ahead, both = forward(snapshots, LFR), detect_smoothed(snapshots, model(LFR))
    for one, other in zip(ahead[1:], both[1:], strict=True):
        assert set(other.community_ids) <= {i for result in ahead for i in result.community_ids}
        assert np.mean(np.array(ids(one)) == np.array(ids(other))) > 0.8
    assert ids(both[-1]) == ids(ahead[-1])


def test_a_stream_goes_on_with_the_memory_of_forward_detection() -> None:
    snapshots, _ = planted(7, 3)
    ahead, both = forward(snapshots, LFR), detect_smoothed(snapshots, model(LFR))
    for one, other in zip(ahead, both, strict=True):
        assert encode_memory(one.memory) == encode_memory(other.memory)


def test_equal_windows_give_equal_bytes_and_a_part_goes_on_from_its_memory() -> None:
    snapshots, _ = planted(3, 5)
    first, again = (detect_smoothed(snapshots, model(LFR)) for _ in range(2))
    assert [one.communities.tobytes() for one in first] == [
        one.communities.tobytes() for one in again
    ]
    whole = detect_smoothed(snapshots, model(LFR))
    memory = forward(snapshots[:2], LFR)[-1].memory
    part = detect_smoothed(snapshots[2:], model(LFR), memory)
    assert [ids(one) for one in part] == [ids(one) for one in whole[2:]]


def test_a_complete_change_says_nothing_about_the_windows_before_it() -> None:
    old, _ = planted(3, 3)
    new, _ = planted(4, 3, first=3)
    alone = detect_smoothed(old, model(LFR))
    both = detect_smoothed([*old, *new], model(LFR))
    for one, other in zip(alone, both[:3], strict=True):
        assert nmi(one.communities, other.communities) > 0.99


def test_a_community_is_not_split_or_merged_before_its_edges_show_it() -> None:
    whole, halves = (range(20), range(20, 40)), (range(12), range(12, 20), range(20, 40))
    windows = [cliques(0, *whole), cliques(1, *halves)]
    one, two = detect_smoothed(windows, model(CLIQUES), horizon="off")
    assert ids(one) == [0] * 20 + [1] * 20
    assert ids(two) == [0] * 12 + [2] * 8 + [1] * 20
    windows = [cliques(0, *halves), cliques(1, *whole)]
    one, two = detect_smoothed(windows, model(CLIQUES), horizon="off")
    assert ids(one) == [0] * 12 + [1] * 8 + [2] * 20
    assert ids(two) == [0] * 20 + [2] * 20


def test_a_node_that_the_window_lacks_is_told_by_the_windows_around_it() -> None:
    """Node 10 has one edge to each community in the second window; before and after it has many."""
    first, last = (cliques(n, [*range(10), 10], range(20, 30)) for n in (0, 3))
    away = cliques(1, range(10), range(20, 30))
    doubtful = cliques(2, range(10), range(20, 30), [9, 10], [10, 20])
    found = detect_smoothed([first, away, doubtful, last], model(CLIQUES))
    assert ids(found[2])[10] == ids(found[0])[0]


def test_a_node_without_edges_keeps_its_community() -> None:
    first, last = (cliques(n, range(11), range(20, 30)) for n in (0, 2))
    groups = [pair for group in (range(10), range(20, 30)) for pair in combinations(group, 2)]
    src, dst = zip(*groups, strict=True)
    middle = snapshot_from_pairs(
        [*src, 10], pa.array([*dst, None]), graph="g", id="g/1", window=window(1)
    )
    found = detect_smoothed([first, middle, last], model(CLIQUES))
    assert ids(found[1])[10] == ids(found[0])[10]


def test_windows_that_modularity_decides_stay_as_they_are() -> None:
    snapshots, _ = planted(7, 3)
    plain = BpParameters()
    for one, other in zip(
        forward(snapshots, plain), detect_smoothed(snapshots, model(plain)), strict=True
    ):
        assert ids(one) == ids(other)


def test_k_given_is_k_in_each_window() -> None:
    snapshots, _ = planted(7, 4)
    ks = [20, None, 35, 30]
    found = detect_smoothed(snapshots, model(LFR), n_communities=ks)
    assert [len(one.community_ids) for one in found][::2] == [20, 35]
    assert found[-1].memory.next_id > max(int(one.community_ids.max()) for one in found)
    with pytest.raises(BadSettings, match="4 windows need one each"):
        detect_smoothed(snapshots, model(LFR), n_communities=[20])


def test_no_windows_no_results_and_windows_must_be_in_order() -> None:
    assert detect_smoothed([], model(LFR)) == []
    snapshot = cliques(0, range(5))
    with pytest.raises(BadInput, match="not after"):
        detect_smoothed([snapshot, replace(snapshot, id="again")], model(CLIQUES))
    with pytest.raises(BadInput, match="one graph; there are g and other"):
        detect_smoothed([snapshot, replace(cliques(1, range(5)), graph="other")], model(CLIQUES))


def test_what_the_future_shows_makes_communities_more_probable() -> None:
    snapshots, truths = planted(7, 5)
    filtered, smoothed = (
        found[1] for found in (forward(snapshots, LFR), detect_smoothed(snapshots, model(LFR)))
    )
    assert filtered.probabilities is not None
    assert smoothed.probabilities is not None
    assert smoothed.second_ids is not None
    assert filtered.probabilities.mean() < smoothed.probabilities.mean() <= 1
    assert (smoothed.second_ids != np.array(ids(smoothed))).all()
    counts = np.zeros((len(smoothed.community_ids), truths[1].max() + 1))
    np.add.at(counts, (smoothed.communities, truths[1]), 1)
    right = counts.argmax(axis=1)[smoothed.communities] == truths[1]
    assert smoothed.probabilities.mean() == pytest.approx(right.mean(), abs=0.1)
