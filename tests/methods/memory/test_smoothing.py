"""Smoothing: past windows with what the later ones show, and with the ids of forward detection."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from stream_icd.core.errors import BadInput, BadSettings
from stream_icd.core.snapshot import Snapshot, snapshot_from_pairs
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory.encoding import encode_memory
from stream_icd.methods.memory.smoothing import detect_smoothed
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_drifting_lfr
from tests.methods.memory.streams import cliques, detected, hour, ids_of, model

LFR = model(BpParameters(resolution=4.5, mixing=0.6, iterations=1))


def planted(
    seed: int, n_windows: int, first: int = 0
) -> tuple[list[Snapshot], list[NDArray[np.int32]]]:
    """Windows of a drifting graph and their planted communities."""
    settings, snapshots, truths = LfrSettings(n_nodes=2000, mixing=0.6), [], []
    for number, (graph, _) in enumerate(generate_drifting_lfr(seed, n_windows, settings), first):
        src = pa.array([*graph.edges[0], *range(2000)])
        dst = pa.array([*graph.edges[1], *[None] * 2000])  # nodes without edges count too
        window = hour(number)
        snapshots.append(snapshot_from_pairs(src, dst, graph="g", id=str(number), window=window))
        truths.append(graph.communities)
    return snapshots, truths


def test_the_future_improves_the_past_and_makes_its_communities_more_probable() -> None:
    snapshots, truths = planted(7, 7)
    found = detected(snapshots, LFR), detect_smoothed(snapshots, LFR)
    ahead, both = (
        [nmi(truth, one.communities) for truth, one in zip(truths, windows, strict=True)]
        for windows in found
    )
    assert ahead[0] < 0.65
    assert min(both[:-1]) > 0.94
    assert 1 - np.mean(both[2:5]) < 0.55 * (1 - np.mean(ahead[2:5]))
    filtered, smoothed = (windows[1] for windows in found)
    assert filtered.probabilities.mean() < smoothed.probabilities.mean() <= 1
    assert (smoothed.second_ids != ids_of(smoothed)).all()
    counts = np.zeros((len(smoothed.community_ids), truths[1].max() + 1))
    np.add.at(counts, (smoothed.communities, truths[1]), 1)
    right = counts.argmax(axis=1)[smoothed.communities] == truths[1]
    assert smoothed.probabilities.mean() == pytest.approx(right.mean(), abs=0.1)


def test_smoothed_windows_have_the_ids_and_leave_the_memory_of_forward_detection() -> None:
    snapshots, _ = planted(7, 6)
    ahead, both, again = detected(snapshots, LFR), *(detect_smoothed(snapshots, LFR) for _ in "12")
    known = {id for result in ahead for id in result.community_ids}
    for at, (one, other) in enumerate(zip(ahead, both, strict=True)):
        assert encode_memory(one.memory) == encode_memory(other.memory)
        if at:
            assert set(other.community_ids) <= known
            assert np.mean(ids_of(one) == ids_of(other)) > 0.8
    assert np.array_equal(ids_of(both[-1]), ids_of(ahead[-1]))
    part = detect_smoothed(snapshots[2:], LFR, ahead[1].memory)
    for others in (again, part):  # equal windows, and those after a memory
        for one, other in zip(both[-len(others) :], others, strict=True):
            assert ids_of(one).tobytes() == ids_of(other).tobytes()


def test_a_complete_change_says_nothing_about_the_windows_before_it() -> None:
    old, _ = planted(3, 3)
    new, _ = planted(4, 3, first=3)
    alone = detect_smoothed(old, LFR)
    both = detect_smoothed([*old, *new], LFR)
    for one, other in zip(alone, both[:3], strict=True):
        assert nmi(one.communities, other.communities) > 0.99


def test_a_community_is_not_split_or_merged_before_its_edges_show_it() -> None:
    whole, halves = (range(20), range(20, 40)), (range(12), range(12, 20), range(20, 40))
    windows = [cliques(0, *whole), cliques(1, *halves)]
    one, two = detect_smoothed(windows, model(), horizon="off")
    assert ids_of(one).tolist() == [0] * 20 + [1] * 20
    assert ids_of(two).tolist() == [0] * 12 + [2] * 8 + [1] * 20
    windows = [cliques(0, *halves), cliques(1, *whole)]
    one, two = detect_smoothed(windows, model(), horizon="off")
    assert ids_of(one).tolist() == [0] * 12 + [1] * 8 + [2] * 20
    assert ids_of(two).tolist() == [0] * 20 + [2] * 20


def test_a_node_without_edges_or_in_doubt_is_told_by_the_windows_around_it() -> None:
    """Node 10 has one edge to each community in the fourth window; in the first and last, many."""
    groups = range(10), range(20, 30)
    first, last = (cliques(number, [*range(10), 10], groups[1]) for number in (0, 4))
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    src, dst = zip(*pairs, (10, None), strict=True)
    alone = snapshot_from_pairs(src, pa.array(dst), graph="g", id="g/1", window=hour(1))
    away, doubtful = cliques(2, *groups), cliques(3, *groups, [9, 10], [10, 20])
    found = detect_smoothed([first, alone, away, doubtful, last], model())
    assert ids_of(found[0])[10] == ids_of(found[1])[10] == ids_of(found[3])[10]


def test_windows_that_modularity_decides_stay_as_they_are() -> None:
    snapshots, _ = planted(7, 3)
    plain = model(BpParameters())
    found = detected(snapshots, plain), detect_smoothed(snapshots, plain)
    for one, other in zip(*found, strict=True):
        assert ids_of(one).tolist() == ids_of(other).tolist()


def test_k_given_is_k_in_each_window() -> None:
    snapshots, _ = planted(7, 4)
    ks = [20, None, 35, 30]
    found = detect_smoothed(snapshots, LFR, n_communities=ks)
    assert [len(one.community_ids) for one in found][::2] == [20, 35]
    assert found[-1].memory.next_id > max(int(one.community_ids.max()) for one in found)
    with pytest.raises(BadSettings, match="4 windows need one each"):
        detect_smoothed(snapshots, LFR, n_communities=[20])


def test_no_windows_no_results_and_windows_must_be_in_order() -> None:
    assert detect_smoothed([], LFR) == []
    snapshot = cliques(0, range(5))
    with pytest.raises(BadInput, match="not after"):
        detect_smoothed([snapshot, replace(snapshot, id="again")], model())
    with pytest.raises(BadInput, match="one graph; there are g and other"):
        detect_smoothed([snapshot, replace(cliques(1, range(5)), graph="other")], model())
