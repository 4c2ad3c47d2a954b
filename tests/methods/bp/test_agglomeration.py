"""Communities are united while it shortens the description; what hangs in the air joins one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from stream_icd.core.arrays import Labels
from stream_icd.methods.bp import find
from stream_icd.methods.bp.agglomeration import agglomerate, connected
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.bp.partition import majority
from stream_icd.methods.bp.posterior import initial_posterior, next_posterior
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length
from stream_icd.methods.synthetic.gn import generate_gn
from tests.methods.bp.graphs import cliques, labels_of, lfr, padded

SEARCH = BpParameters(search=True, stay=0.5)
ALL_PARAMETERS = pytest.mark.parametrize(
    "parameters",
    [SEARCH, BpParameters(), BpParameters(resolution=6.0, mixing=0.4, iterations=1)],
    ids=["search", "modularity", "beliefs"],
)


def cut(labels: np.ndarray, parts: int) -> Labels:
    """Each community cut into parts at random."""
    pieces = np.random.default_rng(0).integers(0, parts, len(labels))
    return np.unique(labels * parts + pieces, return_inverse=True)[1].astype(np.int32)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_communities_cut_to_pieces_are_found_again(parts: int) -> None:
    graph = lfr(3, 2000)
    found = agglomerate(finest_level(graph.adjacency()), cut(graph.communities, parts))
    assert nmi(graph.communities, found) > 0.99


@pytest.mark.parametrize("seed", range(5))
def test_the_description_never_gets_longer(seed: int) -> None:
    graph = lfr(seed, 500, 0.5).adjacency()
    labels = np.random.default_rng(seed).integers(0, 40, 500).astype(np.int32)
    found = agglomerate(finest_level(graph), labels)
    assert description_length(graph, found) <= description_length(graph, labels)


def test_chance_is_one_community() -> None:
    graph = as_adjacency(nx.gnm_random_graph(300, 1500, seed=0))
    labels = np.random.default_rng(0).integers(0, 10, 300).astype(np.int32)
    assert not agglomerate(finest_level(graph), labels).any()


def test_what_no_edge_links_stays_apart() -> None:
    labels = labels_of(9, 9, 9, 9)
    assert np.array_equal(agglomerate(finest_level(cliques(9, 9, 9, 9)), labels), labels)
    graph = generate_gn(np.random.default_rng(3), 200, 4, 0.5)
    alone = np.append(cut(graph.communities, 2), 8 + np.arange(500)).astype(np.int32)
    found = agglomerate(finest_level(padded(graph.adjacency(), 700)), alone)
    assert nmi(graph.communities, found[:200]) == pytest.approx(1)
    assert len(set(found[200:].tolist())) == 500
    for parents in (None, np.zeros(6, np.int32)):  # without edges, also as parts of one community
        with np.errstate(all="raise"):
            found = agglomerate(finest_level(csr_array((6, 6))), labels_of(*[1] * 6), parents)
        assert found.tolist() == list(range(6))


def sparse_planted(seed: int) -> csr_array:
    return as_adjacency(nx.planted_partition_graph(10, 20, 0.15, 0.005, seed=seed))


def pieces_of(adjacency: csr_array, labels: Labels) -> Labels:
    rows, columns = adjacency.tocoo().coords
    inside = labels[rows] == labels[columns]
    own = csr_array((np.ones(inside.sum()), (rows[inside], columns[inside])), adjacency.shape)
    pieces: Labels = connected_components(own, directed=False)[1]
    return pieces


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_in_sparse_graphs_each_community_is_connected_and_no_linked_node_alone(first: int) -> None:
    n_changed = 0
    for seed in range(first, first + 20):
        adjacency = sparse_planted(seed)
        rng = np.random.default_rng(0)
        before = find._found(finest_level(adjacency), SEARCH, None, rng).labels
        labels = find_communities(adjacency, SEARCH)
        pieces, is_linked = pieces_of(adjacency, labels), np.diff(adjacency.indptr) > 0
        assert pieces.max() == labels.max()
        assert (np.bincount(pieces)[pieces][is_linked] > 1).all()
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
        assert len({components[pieces == piece][0] for piece in own}) == len(own)


@ALL_PARAMETERS
def test_k_is_kept_if_the_graph_has_more_components(parameters: BpParameters) -> None:
    labels = find_communities(cliques(6, 6, 6), parameters, 2)
    assert sorted(np.bincount(labels).tolist()) == [6, 12]


APART = {
    "a node with edges only to another community": (
        cliques(6, 6, 1, links=[(0, 12), (1, 12)]),
        labels_of(6, 7),
        [0] * 6 + [1] * 6 + [0],
        [0] * 6 + [1] * 6 + [0],
    ),
    "a node with edges that is alone": (
        cliques(6, 6, 1, links=[(0, 12), (1, 12)]),
        labels_of(6, 6, 1),
        [0] * 6 + [1] * 6 + [0],
        labels_of(6, 6, 1).tolist(),
    ),
    "a community of two parts, each of which is one": (
        cliques(8, 6, 8, links=[(0, 14), (8, 15)]),
        labels_of(14, 8),
        [0] * 8 + [2] * 6 + [1] * 8,
        [0] * 8 + [1] * 14,
    ),
    "a component that is in several communities": (
        cliques(6, 6, 1, 1, 1, links=[(12, 13), (13, 14)]),
        np.array([0] * 6 + [1] * 6 + [0, 1, 0], np.int32),
        [0] * 6 + [1] * 6 + [2] * 3,
        [0] * 6 + [1] * 6 + [0] * 3,
    ),
}


@pytest.mark.parametrize("case", APART)
def test_what_is_apart_from_its_community_joins_another_or_is_one(case: str) -> None:
    adjacency, labels, expected, if_k_stays = APART[case]
    graph = finest_level(adjacency)
    assert connected(graph, labels).tolist() == expected
    assert connected(graph, labels, keep_number=True).tolist() == if_k_stays


def test_communities_do_not_unite_by_way_of_a_node_between_them() -> None:
    links = [(0, 18), (1, 18), (6, 18), (7, 18)]
    found = connected(finest_level(cliques(6, 6, 6, 1, links=links)), labels_of(6, 6, 7))
    assert found[:18].tolist() == labels_of(6, 6, 6).tolist()
    assert found[18] in (0, 1)


def test_nodes_without_edges_and_held_nodes_stay() -> None:
    graph = finest_level(cliques(6, 6, 1, 1, links=[(0, 13), (1, 13)]))
    labels, held = labels_of(6, 8), np.zeros(14, np.bool_)
    assert connected(graph, labels, held=held).tolist() == [0] * 6 + [1] * 7 + [0]
    held[[6, 13]] = True
    assert connected(graph, labels, held=held).tolist() == labels.tolist()


@pytest.mark.parametrize("seed", [2, 3, 10, 13])
def test_on_a_stream_only_what_was_there_before_may_lack_a_link(seed: int) -> None:
    adjacency = sparse_planted(100 + seed)
    first, second = finest_level(sparse_planted(seed)), finest_level(adjacency)
    at = np.where(np.random.default_rng(seed).random(200) < 0.5, np.arange(200), -1)  # half are new
    known = initial_posterior(first, SEARCH, None, 0).rearranged(at)
    labels, before = next_posterior(second, SEARCH, known, 0).likeliest, known.likeliest
    stayed = (before >= 0) & (majority(before, labels, known.n_communities)[before] == labels)
    pieces, linked = pieces_of(adjacency, labels), np.diff(second.indptr) > 0
    for community in np.unique(labels):
        own = np.unique(pieces[linked & (labels == community)])
        assert len(own) == 1 or all(stayed[pieces == one].any() for one in own)
