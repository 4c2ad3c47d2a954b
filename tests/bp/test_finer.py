"""Communities that were joined by mistake come apart where their parts predict the next window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.bp.finer import finer_communities
from stream_icd.bp.level_graph import LevelGraph, finest_level
from stream_icd.bp.parameters import BpParameters
from stream_icd.bp.recalled import Recalled, nothing_recalled
from stream_icd.bp.remember import find_remembering
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.drift import generate_drifting_lfr
from stream_icd.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.synthetic.planted_graph import PlantedGraph

N = 1000
FAINT = BpParameters(resolution=2.3, mixing=0.6, iterations=1)
"""Of which a single window of 1,000 nodes shows next to nothing."""


def faint_windows(seed: int, n_windows: int) -> list[PlantedGraph]:
    settings = LfrSettings(n_nodes=N, mixing=0.6)
    return [graph for graph, _ in generate_drifting_lfr(seed, n_windows, settings)]


def in_pairs(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each two communities as one."""
    return (labels // 2).astype(np.int32)


def faint_graph() -> tuple[LevelGraph, NDArray[np.int32], NDArray[np.int32]]:
    """A graph, its communities, and these in pairs."""
    planted = generate_lfr(np.random.default_rng(1), n_nodes=N, mixing=0.6)
    return (
        finest_level(planted.adjacency()),
        planted.communities,
        in_pairs(planted.communities),
    )


def remembering(labels: NDArray[np.int32], parts: NDArray[np.int32] | None) -> Recalled:
    empty = nothing_recalled(len(labels), next_id=1000)
    ids, shares = empty.ids.copy(), empty.shares.copy()
    ids[:, 0], shares[:, 0] = labels, 0.9
    return replace(empty, ids=ids, shares=shares, mixing=0.6, stay=0.9, believed=True, rival=parts)


def test_parts_that_predict_the_edges_replace_their_community() -> None:
    graph, truth, pairs = faint_graph()
    n_pairs = int(pairs.max()) + 1
    finer = finer_communities(graph, pairs, truth, n_pairs)
    assert nmi(truth, finer) > 0.98 > nmi(truth, pairs)
    for pair in range(n_pairs):  # the largest part keeps the label
        members = finer[pairs == pair]
        assert np.bincount(members).argmax() == pair
        assert set(members.tolist()) - {pair} <= set(range(n_pairs, finer.max() + 1))
    assert np.unique(finer).tolist() == list(range(finer.max() + 1))


def test_parts_that_are_chance_change_nothing() -> None:
    graph, truth, _ = faint_graph()
    halves = (2 * truth + np.random.default_rng(0).integers(0, 2, N)).astype(np.int32)
    k = int(truth.max()) + 1
    assert np.array_equal(finer_communities(graph, truth, halves, k), truth)


def test_parts_of_parts_are_joined_first() -> None:
    graph, truth, pairs = faint_graph()
    halves = (2 * truth + np.random.default_rng(0).integers(0, 2, N)).astype(np.int32)
    finer = finer_communities(graph, pairs, halves, int(pairs.max()) + 1)
    assert nmi(truth, finer) > 0.95


def test_nodes_without_a_remembered_community_keep_none() -> None:
    graph, truth, pairs = faint_graph()
    away = np.arange(N) % 5 == 0
    pairs[away] = -1
    finer = finer_communities(graph, pairs, truth, int(pairs.max()) + 1)
    assert (finer[away] == -1).all()
    assert (finer[~away] >= 0).all()
    assert nmi(truth[~away], finer[~away]) > 0.95
    nothing = np.full(N, -1, np.int32)
    assert np.array_equal(finer_communities(graph, nothing, truth, 0), nothing)
    assert np.array_equal(finer_communities(graph, pairs, nothing, int(pairs.max()) + 1), pairs)


def test_new_communities_get_new_ids() -> None:
    graph = faint_windows(1, 1)[0]
    truth, pairs = graph.communities, in_pairs(graph.communities)
    held = find_remembering(graph.adjacency(), FAINT, remembering(pairs, None))
    freed = find_remembering(graph.adjacency(), FAINT, remembering(pairs, truth))
    assert nmi(truth, freed.labels) > max(nmi(truth, held.labels) + 0.03, 0.9)
    old = {int(one) for one in freed.community_ids if one < 1000}
    assert old == set(pairs.tolist())
    new = {int(one) for one in freed.community_ids} - old
    assert new == set(range(1000, 1000 + len(new)))
    assert freed.believed.next_id >= 1000 + len(new)
    assert freed.n_continued == len(old)


@pytest.mark.parametrize("seed", [1007, 1023])
def test_what_a_faint_first_window_joined_comes_apart(seed: int) -> None:
    recalled, scores = nothing_recalled(N), []
    parameters = replace(FAINT, resolution=4.0)
    for graph in faint_windows(seed, 20):
        found = find_remembering(graph.adjacency(), parameters, recalled)
        scores.append(nmi(graph.communities, found.labels))
        recalled = found.believed
    assert scores[0] < 0.65
    assert np.mean(scores[-5:]) > 0.75  # without parts 0.69 and 0.34
