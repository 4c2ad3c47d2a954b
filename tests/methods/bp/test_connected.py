"""Communities are connected: what is not linked to its community joins another, or is divided."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import Labels
from stream_icd.methods.bp import find
from stream_icd.methods.bp.connected import connected
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import majority
from stream_icd.methods.bp.posterior import initial_posterior, next_posterior
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.quality.partition import description_length

SEARCH = BpParameters(search=True, stay=0.5)
ALL_PARAMETERS = pytest.mark.parametrize(
    "parameters",
    [SEARCH, BpParameters(), BpParameters(resolution=6.0, mixing=0.4, iterations=1)],
    ids=["search", "modularity", "beliefs"],
)


def sparse_planted(seed: int) -> csr_array:
    return as_adjacency(nx.planted_partition_graph(10, 20, 0.15, 0.005, seed=seed))


def cliques(*groups: Sequence[int], links: Sequence[tuple[int, int]] = ()) -> csr_array:
    graph = nx.Graph(links)
    graph.add_nodes_from(sorted(node for group in groups for node in group))
    graph.add_edges_from(pair for group in groups for pair in combinations(group, 2))
    return as_adjacency(nx.to_scipy_sparse_array(graph, sorted(graph)))


def pieces_of(adjacency: csr_array, labels: Labels) -> Labels:
    ends = adjacency.tocoo().coords
    inside = labels[ends[0]] == labels[ends[1]]
    own = csr_array((np.ones(inside.sum()), (ends[0][inside], ends[1][inside])), adjacency.shape)
    pieces: Labels = connected_components(own, directed=False)[1]
    return pieces


def n_without_neighbour(adjacency: csr_array, labels: Labels) -> int:
    pieces = pieces_of(adjacency, labels)
    return int((np.bincount(pieces)[pieces][np.diff(adjacency.indptr) > 0] == 1).sum())


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_in_sparse_graphs_each_community_is_connected_and_no_linked_node_alone(first: int) -> None:
    n_changed = 0
    for seed in range(first, first + 20):
        adjacency = sparse_planted(seed)
        rng = np.random.default_rng(0)
        before = find._found(finest_level(adjacency), SEARCH, None, rng).labels
        labels = find_communities(adjacency, SEARCH)
        assert pieces_of(adjacency, labels).max() == labels.max()
        assert n_without_neighbour(adjacency, labels) == 0
        lengths = [description_length(adjacency, one) for one in (labels, before)]
        assert lengths[0] <= lengths[1] + 1e-12
        n_changed += lengths[0] < lengths[1]
    assert n_changed  # without this step, some are not connected


@ALL_PARAMETERS
@settings(max_examples=40)
@given(n_nodes=st.integers(2, 30), n_edges=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_any_graph_has_connected_communities(
    parameters: BpParameters, n_nodes: int, n_edges: int, seed: int
) -> None:
    adjacency = as_adjacency(nx.gnm_random_graph(n_nodes, n_edges, seed=seed))
    labels = find_communities(adjacency, parameters)
    assert pieces_of(adjacency, labels).max() == labels.max()


@settings(max_examples=40)
@given(n_nodes=st.integers(3, 30), k=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_with_k_given_only_whole_components_are_not_connected(
    n_nodes: int, k: int, seed: int
) -> None:
    k = min(k, n_nodes)
    adjacency = as_adjacency(nx.gnm_random_graph(n_nodes, 2 * n_nodes, seed=seed))
    labels = find_communities(adjacency, SEARCH, k)
    assert len(np.unique(labels)) == k
    pieces, components = pieces_of(adjacency, labels), connected_components(adjacency)[1]
    for community in range(k):
        own = np.unique(pieces[labels == community])
        of_graph = [components[pieces == piece][0] for piece in own]
        assert len(set(of_graph)) == len(own)


@ALL_PARAMETERS
def test_k_is_kept_if_the_graph_has_more_components(parameters: BpParameters) -> None:
    adjacency = cliques(range(6), range(6, 12), range(12, 18))
    labels = find_communities(adjacency, parameters, 2)
    assert sorted(np.bincount(labels).tolist()) == [6, 12]


def test_with_k_given_pieces_of_one_component_stay_together() -> None:
    graph = finest_level(cliques(range(6), range(6, 12), links=[(12, 13), (13, 14)]))
    labels = np.array([0] * 6 + [1] * 6 + [0, 1, 0], np.int32)
    found = connected(graph, labels, keep_number=True)
    assert found.tolist() == [0] * 6 + [1] * 6 + [0] * 3
    assert connected(graph, labels).tolist() == [0] * 6 + [1] * 6 + [2] * 3


def test_a_node_without_a_neighbour_in_its_community_joins_that_of_its_neighbours() -> None:
    graph = finest_level(cliques(range(6), range(6, 12), links=[(0, 12), (1, 12)]))
    for label in (1, 2):  # in the wrong community, and alone
        found = connected(graph, np.array([0] * 6 + [1] * 6 + [label], np.int32))
        assert found.tolist() == [0] * 6 + [1] * 6 + [0]


def test_a_community_of_two_parts_is_divided_if_both_are_communities() -> None:
    groups = range(8), range(8, 14), range(14, 22)
    graph = finest_level(cliques(*groups, links=[(0, 14), (8, 15)]))
    labels = np.array([0] * 14 + [1] * 8, np.int32)
    assert connected(graph, labels).tolist() == [0] * 8 + [2] * 6 + [1] * 8
    assert connected(graph, labels, keep_number=True).tolist() == [0] * 8 + [1] * 14


def test_communities_do_not_unite_by_way_of_a_node_between_them() -> None:
    links = [(0, 18), (1, 18), (6, 18), (7, 18)]
    graph = finest_level(cliques(range(6), range(6, 12), range(12, 18), links=links))
    found = connected(graph, np.repeat([0, 1, 2, 2], [6, 6, 6, 1]).astype(np.int32))
    assert found[:18].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert found[18] in (0, 1)


def test_nodes_without_edges_and_held_nodes_stay() -> None:
    graph = finest_level(cliques(range(6), range(6, 12), [12], links=[(0, 13), (1, 13)]))
    labels = np.array([0] * 6 + [1] * 8, np.int32)
    held = np.zeros(14, np.bool_)
    assert connected(graph, labels, held=held).tolist() == [0] * 6 + [1] * 7 + [0]
    held[[6, 13]] = True
    assert connected(graph, labels, held=held).tolist() == labels.tolist()


@pytest.mark.parametrize("seed", [2, 3, 10, 13])
def test_on_a_stream_only_what_was_there_before_may_lack_a_link(seed: int) -> None:
    first, second = (finest_level(sparse_planted(one)) for one in (seed, 100 + seed))
    at = np.where(np.random.default_rng(seed).random(200) < 0.5, np.arange(200), -1)  # half are new
    known = initial_posterior(first, SEARCH, None, 0).rearranged(at)
    labels, before = next_posterior(second, SEARCH, known, 0).likeliest, known.likeliest
    stayed = (before >= 0) & (majority(before, labels, known.n_communities)[before] == labels)
    adjacency = csr_array((second.weights, second.indices, second.indptr))
    pieces, linked = pieces_of(adjacency, labels), np.diff(second.indptr) > 0
    for community in np.unique(labels):
        own = np.unique(pieces[linked & (labels == community)])
        held = [one for one in own if stayed[pieces == one].any()]
        assert held == own.tolist() or len(own) == 1
