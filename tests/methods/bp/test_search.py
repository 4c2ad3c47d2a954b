"""The model `default`: description length chooses the resolution and the method for each graph."""

from __future__ import annotations

from math import inf

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.errors import BadSettings
from stream_icd.methods.bp.belief_propagation import PlantedModel, believe
from stream_icd.methods.bp.find import bits_of, find_communities, least_description
from stream_icd.methods.bp.level_graph import finest_level
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import as_adjacency
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length, modularity
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr

MODULARITY = BpParameters()
SEARCH = BpParameters(search=True)


@pytest.mark.parametrize(("n_nodes", "mixing"), [(1000, 0.3), (5000, 0.3), (5000, 0.6)])
def test_it_finds_what_modularity_joins(n_nodes: int, mixing: float) -> None:
    graph = generate_lfr(np.random.default_rng(3), LfrSettings(n_nodes=n_nodes, mixing=mixing))
    plain = find_communities(graph.adjacency(), MODULARITY)
    found = find_communities(graph.adjacency(), SEARCH)
    assert nmi(graph.communities, found) > nmi(graph.communities, plain) + 0.005


@pytest.mark.parametrize("seed", range(3))
def test_communities_too_weak_to_name_each_node_are_found(seed: int) -> None:
    """No partition saves bits here, not even the planted one: only beliefs over all of them do."""
    graph = generate_lfr(np.random.default_rng(seed), LfrSettings(mixing=0.7))
    assert description_length(graph.adjacency(), graph.communities) > 0
    found = find_communities(graph.adjacency(), SEARCH)
    assert nmi(graph.communities, found) > 0.35


@pytest.mark.parametrize(
    ("n_nodes", "mean_degree", "max_degree", "smallest", "largest", "gain"),
    [(2000, 5, 40, 3, 40, 0.07), (250, 10, 20, 5, 20, 0.02), (5000, 10, 100, 10, 1000, 0.001)],
)
def test_small_communities_are_found_beside_large_ones_and_in_small_graphs(
    n_nodes: int, mean_degree: float, max_degree: int, smallest: int, largest: int, gain: float
) -> None:
    settings, gains = LfrSettings(n_nodes, mean_degree, max_degree, smallest, largest, 0.25), []
    for seed in range(3, 6):
        graph = generate_lfr(np.random.default_rng(seed), settings)
        found, plain = (
            nmi(graph.communities, find_communities(graph.adjacency(), parameters))
            for parameters in (SEARCH, MODULARITY)
        )
        gains.append(found - plain)
    assert np.mean(gains) > gain


def test_not_knowing_k_costs_nothing() -> None:
    graph = generate_gn(np.random.default_rng(3), 2000, 100, 0.4)
    unknown = find_communities(graph.adjacency(), SEARCH)
    given = find_communities(graph.adjacency(), SEARCH, 100)
    assert len(set(given.tolist())) == 100
    assert nmi(graph.communities, unknown) > nmi(graph.communities, given) - 0.005


def test_hubs_keep_their_communities() -> None:
    """Stars in a ring: their centres have most of the edges, as networks of the Internet have."""
    stars = nx.disjoint_union_all([nx.star_graph(60) for _ in range(5)])
    stars.add_edges_from((61 * i, 61 * ((i + 1) % 5)) for i in range(5))
    found = find_communities(as_adjacency(stars), SEARCH)
    assert nmi(np.repeat(np.arange(5), 61), found) > 0.99


def test_beliefs_put_all_leaves_of_a_large_star_together() -> None:
    """From single nodes, none of 30,000 communities is probable; the likeliest still counts."""
    star = finest_level(as_adjacency(nx.star_graph(30_000)))
    alone, n_nodes = np.arange(star.n_nodes, dtype=np.int32), star.n_nodes
    marginals = believe(star, alone, n_nodes, PlantedModel(0.99, 1.0, n_nodes), 8)
    assert len(set(marginals.communities[1:, 0].tolist())) == 1
    assert bits_of(star, marginals, n_nodes) > 0


@pytest.mark.filterwarnings("error")
def test_pairs_without_a_probable_community_have_no_description_by_beliefs() -> None:
    pairs = as_adjacency(nx.Graph((node, node + 1) for node in range(0, 60, 2)))
    found = find_communities(pairs, SEARCH)
    assert np.array_equal(found[::2], found[1::2])
    alone = np.arange(60, dtype=np.int32)
    level = finest_level(pairs)
    assert bits_of(level, believe(level, alone, 60, PlantedModel(0.99, 1.0, 60), 8), 60) == inf


def test_the_same_seed_gives_the_same_communities() -> None:
    graph = generate_lfr(
        np.random.default_rng(3), LfrSettings(n_nodes=1000, mixing=0.5)
    ).adjacency()
    first, second = (find_communities(graph, SEARCH, seed=4) for _ in range(2))
    assert np.array_equal(first, second)


def test_isolated_nodes_and_graphs_without_edges_are_no_error() -> None:
    planted = generate_lfr(np.random.default_rng(3), LfrSettings(n_nodes=500, mixing=0.2))
    padded = csr_array(planted.adjacency())
    padded.resize((510, 510))
    found = find_communities(as_adjacency(padded), SEARCH)
    assert len(set(found[500:].tolist()) - set(found[:500].tolist())) == 10
    empty = csr_array((3, 3), dtype=float)
    assert len(set(find_communities(empty, SEARCH).tolist())) == 3


@pytest.mark.parametrize("search", [None, 1, "yes"])
def test_a_search_is_on_or_off(search: object) -> None:
    with pytest.raises(BadSettings, match="search must be true or false"):
        BpParameters(search=search)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["lfr", "gn"])
def test_no_resolution_alone_describes_a_graph_in_fewer_bits(kind: str) -> None:
    adjacency = {
        "lfr": generate_lfr(
            np.random.default_rng(5), LfrSettings(n_nodes=1500, mixing=0.4)
        ).adjacency(),
        "gn": generate_gn(np.random.default_rng(5), 1000, 50, 0.4).adjacency(),
    }[kind]
    found = description_length(adjacency, find_communities(adjacency, SEARCH))
    for resolution in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0):
        labels = find_communities(adjacency, BpParameters(resolution, iterations=3))
        if labels.any():
            assert found <= description_length(adjacency, labels) + 0.01, resolution


@pytest.mark.parametrize("n_nodes", [3, 9, 30])
def test_what_no_method_divides_stays_one_community(n_nodes: int) -> None:
    clique = as_adjacency(nx.complete_graph(n_nodes))
    assert not find_communities(clique, SEARCH).any()


def test_beliefs_do_not_make_each_leaf_of_a_large_star_a_community() -> None:
    star = as_adjacency(nx.star_graph(30_000))
    assert find_communities(star, SEARCH).max() == 0


def test_two_communities_are_found_where_they_save_no_bits() -> None:
    """The karate club: never one community only, where modularity finds several."""
    found = find_communities(as_adjacency(nx.Graph(nx.karate_club_graph().edges)), SEARCH)
    assert found.max() + 1 == 2


def test_beliefs_without_doubt_cost_what_their_partition_costs() -> None:
    cliques = nx.disjoint_union_all([nx.complete_graph(size) for size in (12, 10, 8, 8)])
    cliques.add_edges_from([(0, 12), (13, 22), (23, 30), (1, 31)])
    cliques.add_nodes_from([100, 101])  # of which the edges say nothing
    adjacency = as_adjacency(cliques)
    graph = finest_level(adjacency)
    labels = np.array([0] * 12 + [1] * 10 + [2] * 8 + [3] * 8 + [4, 5], np.int32)
    mixing = 4 / (66 + 45 + 28 + 28 + 4)
    marginals = believe(graph, labels, 6, PlantedModel(mixing, 1.0, 6), 20)
    expected = description_length(adjacency, labels)
    assert bits_of(graph, marginals, 6) == pytest.approx(expected, abs=0.01)


def test_beliefs_in_doubt_cost_less_than_any_partition() -> None:
    graph = generate_lfr(np.random.default_rng(3), LfrSettings(mixing=0.6))
    level = finest_level(graph.adjacency())
    k = graph.n_communities
    marginals = believe(level, graph.communities, k, PlantedModel(0.6, 1.0, k), 20)
    named = description_length(graph.adjacency(), marginals.communities[:, 0])
    assert bits_of(level, marginals, k) < named - 0.1


def test_chance_saves_next_to_nothing_in_beliefs() -> None:
    """Random graphs have partitions of some modularity; beliefs in them fade."""
    for seed in range(5):
        level = finest_level(as_adjacency(nx.gnm_random_graph(1000, 5000, seed=seed)))
        partition = least_description(level, 8, np.random.default_rng(seed))
        assert partition.labels.max() > 0
        k = int(partition.labels.max()) + 1
        believed = believe(level, partition.labels, k, PlantedModel(0.6, 1.0, k), 30)
        assert bits_of(level, believed, k) > -0.03


def test_where_nothing_saves_bits_the_communities_are_those_of_modularity() -> None:
    """A tree of hubs, as discussions are: beliefs would put nearly all nodes into one community."""
    rng = np.random.default_rng(0)
    parents = [int(rng.integers(node)) if rng.random() > 0.6 else 0 for node in range(1, 1500)]
    tree = as_adjacency((np.array([np.arange(1, 1500), parents]), 1500))
    found = find_communities(tree, SEARCH)
    assert description_length(tree, found) > 0
    assert modularity(tree, found) > 0.2
