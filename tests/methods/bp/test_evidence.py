"""Evidence tells communities from what chance alone puts into a graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.evidence import FEW_EDGES, Evidence, evidence_for, rewired
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr


def evidence(adjacency: csr_array) -> Evidence:
    return evidence_for(adjacency, find_communities(adjacency, BpParameters()))


def random_graph(n_nodes: int, n_edges: int, seed: int) -> csr_array:
    return as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=seed))


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(34, 78), (100, 300), (1000, 5000)])
def test_random_graphs_show_none(n_nodes: int, n_edges: int) -> None:
    found = [evidence(random_graph(n_nodes, n_edges, seed)).strength for seed in range(40)]
    assert found.count("none") >= 38


@pytest.mark.parametrize("mixing", [0.1, 0.3, 0.6])
def test_planted_communities_are_strong_and_vanish_when_rewired(mixing: float) -> None:
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(mixing=mixing)).adjacency()
    assert evidence(planted).strength == "strong"
    assert evidence(_shuffled(planted)) == Evidence(0.0, "none")


def _shuffled(adjacency: csr_array) -> csr_array:
    """The graph with its degrees, the rest left to chance, by networkx's own swaps."""
    graph = nx.from_scipy_sparse_array(adjacency)
    degrees = [degree for _, degree in graph.degree()]
    return as_adjacency(nx.Graph(nx.expected_degree_graph(degrees, seed=1, selfloops=False)))


def test_a_small_graph_is_compared_with_chance() -> None:
    """The karate club's description is no shorter, but its modularity is far from chance's."""
    club = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
    assert club.nnz / 2 <= FEW_EDGES
    assert evidence(club) == Evidence(0.0, "weak")
    graph = finest_level(club)
    by_chance = [rewired(graph, np.random.default_rng(seed)) for seed in range(20)]
    strengths = [
        evidence(csr_array((one.weights, one.indices, one.indptr), club.shape)).strength
        for one in by_chance
    ]
    assert strengths.count("none") >= 18


@pytest.mark.parametrize("order", [13, 15, 42])
def test_chance_does_not_decide_about_a_graph_near_the_threshold(order: int) -> None:
    """Nineteen rewired graphs alone find these orders of the same nodes above chance."""
    women = as_adjacency(nx.davis_southern_women_graph())
    at = np.random.default_rng(order).permutation(women.shape[0])
    assert evidence(women[at][:, at]).strength == "none"


def test_declared_nodes_without_edges_cost_and_change_nothing() -> None:
    """150 edges among 300,000 declared nodes are a message of 306 kB."""
    club = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
    n_nodes, linked = 300_000, 2_000 * np.arange(34)
    rows, columns = (linked[one] for one in club.nonzero())
    sparse = csr_array((club.data, (rows, columns)), (n_nodes, n_nodes))
    labels = find_communities(club, BpParameters())
    alone = labels.max() + 1 + np.arange(n_nodes, dtype=np.int32)
    alone[linked] = labels
    assert evidence_for(sparse, alone) == evidence_for(club, labels) == Evidence(0.0, "weak")


def test_too_fine_communities_count_by_their_best_merger() -> None:
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(n_nodes=1000, mixing=0.1))
    halves = 2 * planted.communities + np.arange(1000) % 2
    whole, fine = (evidence_for(planted.adjacency(), one) for one in (planted.communities, halves))
    assert fine.strength == "strong"
    assert fine.bits_saved == pytest.approx(whole.bits_saved, rel=0.05)


def test_other_units_of_weight_and_isolated_nodes_change_nothing() -> None:
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(n_nodes=500, mixing=0.2))
    adjacency, labels = planted.adjacency(), planted.communities
    heavier = csr_array((1e6 * adjacency.data, adjacency.indices, adjacency.indptr))
    padded = csr_array(adjacency)
    padded.resize((503, 503))
    alone = np.append(labels, labels.max() + 1 + np.arange(3, dtype=np.int32))
    expected = evidence_for(adjacency, labels)
    assert evidence_for(heavier, labels) == expected
    assert evidence_for(as_adjacency(padded), alone) == expected


@pytest.mark.parametrize("n_nodes", [0, 3])
def test_no_edges_are_no_evidence(n_nodes: int) -> None:
    empty = csr_array((n_nodes, n_nodes), dtype=float)
    assert evidence_for(empty, np.zeros(n_nodes, np.int32)) == Evidence(0.0, "none")


def test_one_community_is_no_evidence() -> None:
    planted = generate_lfr(np.random.default_rng(7), LfrSettings(n_nodes=500, mixing=0.1))
    assert evidence_for(planted.adjacency(), np.zeros(500, np.int32)) == Evidence(0.0, "none")


def test_rewiring_keeps_degrees_and_makes_no_double_edges() -> None:
    club = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
    graph = finest_level(club)
    other = rewired(graph, np.random.default_rng(0))
    matrix = csr_array((other.weights, other.indices, other.indptr), club.shape)
    assert (matrix.data == 1).all()
    assert not matrix.diagonal().any()
    assert (matrix != matrix.T).nnz == 0
    assert np.array_equal(np.diff(other.indptr), np.diff(graph.indptr))
    assert (matrix != club).nnz > club.nnz


def test_each_node_needs_a_community() -> None:
    four = csr_array(np.kron(np.eye(4), np.ones((9, 9)) - np.eye(9)))
    labels = np.arange(36) // 9
    assert evidence_for(four, labels.tolist()) == evidence_for(four, labels)
    for wrong in (labels[:5], np.append(labels, 4)):
        with pytest.raises(BadSettings, match="36 nodes need one community each"):
            evidence_for(four, wrong)
