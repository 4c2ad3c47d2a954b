"""Communities are united while it shortens the description; what hangs in the air joins one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import Labels
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.memory.detect import detect_window
from tests.methods.bp.graphs import shuffled
from tests.methods.memory.streams import hour, ids_of

SEARCH = BpParameters(search=True, stay=0.5)


def sparse_planted(seed: int) -> csr_array:
    return as_adjacency(nx.planted_partition_graph(10, 20, 0.15, 0.005, seed=seed))


def pieces_of(adjacency: csr_array, labels: Labels) -> Labels:
    rows, columns = adjacency.tocoo().coords
    inside = labels[rows] == labels[columns]
    own = csr_array((np.ones(inside.sum()), (rows[inside], columns[inside])), adjacency.shape)
    pieces: Labels = connected_components(own, directed=False)[1]
    return pieces


def test_in_sparse_graphs_each_community_is_connected_and_no_linked_node_alone() -> None:
    for seed in range(20):
        adjacency = sparse_planted(seed)
        labels = find_communities(adjacency, SEARCH)
        pieces, is_linked = pieces_of(adjacency, labels), np.diff(adjacency.indptr) > 0
        assert pieces.max() == labels.max()
        assert (np.bincount(pieces)[pieces][is_linked] > 1).all()


@pytest.mark.parametrize(
    "parameters",
    [SEARCH, BpParameters(), BpParameters(resolution=6.0, mixing=0.4, iterations=1)],
    ids=["search", "modularity", "beliefs"],
)
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
        assert len({components[pieces == piece][0] for piece in own}) == len(own)


@pytest.mark.parametrize("seed", [2, 3, 10, 13])
def test_on_a_stream_only_what_was_there_before_may_lack_a_link(seed: int) -> None:
    is_old = np.random.default_rng(seed).random(200) < 0.5
    nodes = np.where(is_old, np.arange(200), 1000 + np.arange(200))
    adjacency = shuffled(sparse_planted(100 + seed), np.argsort(nodes))
    nodes = np.sort(nodes)
    first = detect_window(
        sparse_planted(seed), pa.array(range(200)), hour(0), SEARCH, horizon="off"
    )
    second = detect_window(adjacency, pa.array(nodes), hour(1), SEARCH, first.memory, horizon="off")
    stayed = np.zeros(200, np.bool_)
    stayed[: is_old.sum()] = (ids_of(second) == ids_of(first)[nodes % 1000])[: is_old.sum()]
    pieces, is_linked = pieces_of(adjacency, ids_of(second)), np.diff(adjacency.indptr) > 0
    for community in second.community_ids:
        own = np.unique(pieces[is_linked & (ids_of(second) == community)])
        assert len(own) == 1 or all(stayed[pieces == piece].any() for piece in own)
