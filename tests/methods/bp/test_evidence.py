"""Evidence tells communities from what chance alone puts into a graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.evidence import Evidence, evidence_for
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from tests.methods.bp.graphs import cliques, labels_of, lfr, shuffled

CLUB = as_adjacency(nx.Graph(nx.karate_club_graph().edges))
NONE = Evidence(0.0, "none")


def evidence(adjacency: csr_array) -> Evidence:
    return evidence_for(adjacency, find_communities(adjacency, BpParameters()))


@pytest.mark.parametrize(("n_nodes", "n_edges"), [(34, 78), (100, 300), (1000, 5000)])
def test_random_graphs_show_none(n_nodes: int, n_edges: int) -> None:
    graphs = (as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=one)) for one in range(40))
    assert sum(evidence(graph).strength == "none" for graph in graphs) >= 38


@pytest.mark.parametrize("mixing", [0.1, 0.3, 0.6])
def test_planted_communities_are_strong_and_vanish_when_rewired(mixing: float) -> None:
    planted = lfr(7, mixing=mixing).adjacency()
    assert evidence(planted).strength == "strong"
    degrees = np.diff(planted.indptr).tolist()  # the rest left to chance, by networkx's own swaps
    by_chance = nx.Graph(nx.expected_degree_graph(degrees, seed=1, selfloops=False))
    assert evidence(as_adjacency(by_chance)) == NONE


def test_a_small_graph_is_compared_with_rewired_ones() -> None:
    """The karate club's description is no shorter, but its modularity is far from chance's."""
    assert evidence(CLUB) == Evidence(0.0, "weak")
    n_none = 0
    for seed in range(20):
        rewired = nx.Graph(nx.karate_club_graph().edges)
        nx.double_edge_swap(rewired, nswap=300, max_tries=10_000, seed=seed)
        n_none += evidence(as_adjacency(rewired)) == NONE
    assert n_none >= 18


@pytest.mark.parametrize("order", [13, 15, 42])
def test_chance_does_not_decide_about_a_graph_near_the_threshold(order: int) -> None:
    """Nineteen rewired graphs alone find these orders of the same nodes above chance."""
    women = as_adjacency(nx.davis_southern_women_graph())
    at = np.random.default_rng(order).permutation(women.shape[0])
    assert evidence(shuffled(women, at)).strength == "none"


def test_nodes_without_edges_and_other_units_of_weight_cost_and_change_nothing() -> None:
    """150 edges among 300,000 declared nodes are a message of 306 kB."""
    n_nodes, linked = 300_000, 2_000 * np.arange(34)
    rows, columns = (linked[ends] for ends in CLUB.nonzero())
    sparse = csr_array((1e6 * CLUB.data, (rows, columns)), (n_nodes, n_nodes))
    labels = find_communities(CLUB, BpParameters())
    alone = labels.max() + 1 + np.arange(n_nodes, dtype=np.int32)
    alone[linked] = labels
    assert evidence_for(sparse, alone) == evidence_for(CLUB, labels) == Evidence(0.0, "weak")
    planted = lfr(7, 500, 0.2)
    adjacency, labels = planted.adjacency(), planted.communities
    assert evidence_for(adjacency * 1e6, labels) == evidence_for(adjacency, labels)


def test_too_fine_communities_count_by_their_best_merger() -> None:
    planted = lfr(7, 1000, 0.1)
    halves = 2 * planted.communities + np.arange(1000) % 2
    whole, fine = (evidence_for(planted.adjacency(), one) for one in (planted.communities, halves))
    assert fine.strength == "strong"
    assert fine.bits_saved == pytest.approx(whole.bits_saved, rel=0.05)


@pytest.mark.parametrize(
    "adjacency", [csr_array((0, 0)), csr_array((3, 3)), lfr(7, 500, 0.1).adjacency()]
)
def test_one_community_and_no_edges_are_no_evidence(adjacency: csr_array) -> None:
    assert evidence_for(adjacency, np.zeros(adjacency.shape[0], np.int32)) == NONE


def test_each_node_needs_a_community() -> None:
    four, labels = cliques(9, 9, 9, 9), labels_of(9, 9, 9, 9)
    assert evidence_for(four, labels.tolist()) == evidence_for(four, labels)
    for wrong in (labels[:5], np.append(labels, 4)):
        with pytest.raises(BadSettings, match="36 nodes need one community each"):
            evidence_for(four, wrong)
