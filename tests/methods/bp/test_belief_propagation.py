"""Belief in communities: what evidence does to it, and that no amount of it breaks it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.planted_graph import PlantedGraph


def adjacency_of(n_nodes: int, edges: NDArray[np.int64], weights: NDArray[np.float64]) -> csr_array:
    half = coo_array((weights, (edges[0], edges[1])), (n_nodes, n_nodes))
    adjacency = (half + half.T).tocsr()
    adjacency.sort_indices()
    return adjacency


def believed(
    adjacency: csr_array, start: NDArray[np.int32], model: PlantedModel, sweeps: int = 10
) -> NDArray[np.int32]:
    n_communities = int(start.max()) + 1
    return believe(finest_level(adjacency), start, n_communities, model, sweeps).likeliest


def with_errors(truth: NDArray[np.int32], share: float) -> NDArray[np.int32]:
    """The truth, with this share of the nodes put anywhere."""
    rng = np.random.default_rng(1)
    return np.where(rng.random(len(truth)) < share, rng.permutation(truth), truth)


def planted(p_in: float) -> PlantedGraph:
    return generate_gn(np.random.default_rng(2), n_nodes=1000, n_communities=20, p_in=p_in)


@pytest.mark.parametrize("size_spread", [0.0, 0.5, 1.0])
def test_beliefs_repair_a_partition_with_errors(size_spread: float) -> None:
    graph = planted(p_in=0.4)
    start = with_errors(graph.communities, 0.5)
    found = believed(graph.adjacency(), start, PlantedModel(0.6, size_spread, 20))
    assert nmi(graph.communities, start) < 0.4
    assert nmi(graph.communities, found) > 0.98


def test_weights_are_evidence() -> None:
    graph = planted(p_in=0.15)
    inside = graph.communities[graph.edges[0]] == graph.communities[graph.edges[1]]
    weighted = adjacency_of(1000, graph.edges, np.where(inside, 3.0, 1.0))
    start = with_errors(graph.communities, 0.3)
    assert nmi(graph.communities, believed(weighted, start, PlantedModel(0.65, 1.0, 20))) > 0.9
    assert (
        nmi(graph.communities, believed(graph.adjacency(), start, PlantedModel(0.85, 1.0, 20)))
        < 0.5
    )


def test_a_weight_is_that_many_edges() -> None:
    # Node 0 has one edge of weight 3 into community 1 and two edges into community 0.
    edges = np.array([[0, 0, 0, 1, 1, 2, 4, 4, 5], [1, 2, 4, 2, 3, 3, 5, 6, 6]])
    start = np.array([0, 0, 0, 0, 1, 1, 1], np.int32)
    for weight, community in ((1.0, 0), (3.0, 1)):
        weights = np.where((edges[0] == 0) & (edges[1] == 4), weight, 1.0)
        assert (
            believed(adjacency_of(7, edges, weights), start, PlantedModel(0.4, 1.0, 2), 1)[0]
            == community
        )


def test_a_hub_with_thousands_of_neighbours_goes_where_most_of_them_are() -> None:
    # Node 3000 has 1,000 neighbours in community 0 and then 2,000 in 1, where each also has a
    # hub of its own; alone, the evidence for either is past the range of floating point.
    leaves = np.arange(3000)
    hubs = np.where(leaves < 1000, 3001, 3002)
    edges = np.stack(
        [np.concatenate([leaves, leaves]), np.concatenate([np.full(3000, 3000), hubs])]
    )
    adjacency = adjacency_of(3003, edges, np.ones(6000))
    start = np.concatenate([leaves >= 1000, [False, False, True]]).astype(np.int32)
    assert believed(adjacency, start, PlantedModel(0.3, 1.0, 2), sweeps=1)[3000] == 1


def test_isolated_nodes_stay_where_they_are() -> None:
    adjacency = adjacency_of(5, np.array([[0], [1]]), np.ones(1))
    start = np.array([0, 0, 1, 2, 1], np.int32)
    assert believed(adjacency, start, PlantedModel(0.5, 1.0, 3)).tolist() == [0, 0, 1, 2, 1]


@pytest.mark.parametrize("mixing", [0.05, 0.3, 0.9])
def test_the_graph_corrects_a_mixing_learned_elsewhere(mixing: float) -> None:
    graph = planted(p_in=0.3)
    start = with_errors(graph.communities, 0.5)
    known = nmi(
        graph.communities, believed(graph.adjacency(), start, PlantedModel(0.7, 0.0, 20), 30)
    )
    learned = nmi(
        graph.communities, believed(graph.adjacency(), start, PlantedModel(mixing, 0.0, 20), 30)
    )
    assert learned > known - 0.01 > 0.8


def test_communities_that_no_message_could_name_are_not_kept() -> None:
    graph = planted(p_in=0.7)
    marginals = believe(
        finest_level(graph.adjacency()), graph.communities, 20, PlantedModel(0.3, 1.0, 20), 5
    )
    assert (marginals.communities[:, 0] == graph.communities).mean() > 0.99
    assert (marginals.communities[:, 1] < 0).mean() > 0.5


def test_a_community_that_one_message_could_name_is_kept_however_small_its_share() -> None:
    # Node 1600 has two edges into the first of 400 cliques, and one into the second. Each is worth
    # odds of 40,000 to 1. To a neighbour in the first, that neighbour's own edge does not count.
    cliques = np.arange(1600).reshape(400, 4)
    inside = np.concatenate([cliques[:, list(pair)] for pair in combinations(range(4), 2)]).T
    edges = np.concatenate([inside, [[0, 1, 4], [1600, 1600, 1600]]], axis=1)
    adjacency = adjacency_of(1601, edges, np.ones(edges.shape[1]))
    start = np.append(np.arange(1600) // 4, 0).astype(np.int32)
    marginals = believe(finest_level(adjacency), start, 400, PlantedModel(0.01, 1.0, 400), 3)
    assert marginals.communities[1600, :2].tolist() == [0, 1]
    assert marginals.shares[1600, 1] < 1e-4
