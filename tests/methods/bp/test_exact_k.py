"""Merging and cutting to exactly K, without the moves that come before and after."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.modularity import maximise_modularity, move_nodes
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import exactly
from stream_icd.methods.quality.partition import description_length, modularity
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr


def ring_of_pairs(heavy: list[float], light: float) -> csr_array:
    """Pairs (0, 1), (2, 3), ... joined by these weights, and each to the next by a light one."""
    n_nodes = 2 * len(heavy)
    dense = np.zeros((n_nodes, n_nodes))
    for node in range(n_nodes):
        weight = heavy[node // 2] if node % 2 == 0 else light
        other = (node + 1) % n_nodes
        dense[node, other] = dense[other, node] = weight
    return csr_array(dense)


def cut_or_merged(adjacency: csr_array, labels: list[int], n_communities: int) -> NDArray[np.int32]:
    start = np.array(labels, np.int32)
    rng = np.random.default_rng(0)
    return exactly(finest_level(adjacency), start, n_communities, 1.0, rng, believed=True)


@pytest.mark.parametrize("n_communities", [5, 6, 7])
def test_the_heaviest_links_are_merged_first(n_communities: int) -> None:
    adjacency = ring_of_pairs([9.0, 8.0, 7.0, 6.0], light=1.0)
    labels = cut_or_merged(adjacency, list(range(8)), n_communities)
    merged = [pair for pair in range(4) if labels[2 * pair] == labels[2 * pair + 1]]
    assert merged == list(range(8 - n_communities))


def test_a_community_is_cut_between_its_parts() -> None:
    adjacency = ring_of_pairs([9.0, 9.0, 9.0], light=0.5)
    labels = cut_or_merged(adjacency, [0, 0, 0, 0, 1, 1], 3)
    assert labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_what_has_k_communities_already_is_left_alone() -> None:
    adjacency = ring_of_pairs([1.0, 1.0], light=9.0)
    assert cut_or_merged(adjacency, [0, 0, 1, 1], 2).tolist() == [0, 0, 1, 1]


def test_small_components_are_merged_before_anything_else() -> None:
    adjacency = csr_array((6, 6))
    adjacency = csr_array(np.pad(ring_of_pairs([9.0, 9.0], 0.0).toarray(), (0, 2)))
    labels = cut_or_merged(adjacency, [0, 0, 1, 1, 2, 3], 3)
    assert labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_far_fewer_communities_than_modularity_finds_are_not_only_merged() -> None:
    adjacency = generate_lfr(
        np.random.default_rng(0), LfrSettings(n_nodes=2000, mixing=0.3)
    ).adjacency()
    graph, rng = finest_level(adjacency), np.random.default_rng(0)
    found = maximise_modularity(graph, 1.0, rng, iterations=10)
    merged = exactly(graph, found, 5, 1.0, rng, believed=True)
    move_nodes(graph, merged, 1.0, np.random.default_rng(0), may_empty=False)
    labels = exactly(graph, found, 5, 1.0, rng, believed=False)
    assert len(set(labels.tolist())) == 5
    assert modularity(adjacency, labels) > modularity(adjacency, merged) + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_more_communities_than_there_are_describe_no_worse_than_those_of_modularity(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    parents = [int(rng.integers(node) * rng.random()) for node in range(1, 300)]
    tree = csr_array((np.ones(299), (parents, range(1, 300))), (300, 300))
    bits, by_modularity = (
        description_length(tree + tree.T, find_communities(tree + tree.T, parameters, 40))
        for parameters in (BpParameters(search=True), BpParameters())
    )
    assert bits <= by_modularity + 0.01  # beliefs leave most of forty empty
