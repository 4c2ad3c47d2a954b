"""The model `default`: the community size is chosen for each graph, by description length."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from stream_icd.bp.find import find_communities
from stream_icd.bp.parameters import BpParameters
from stream_icd.errors import BadSettings
from stream_icd.graphs.adjacency import as_adjacency
from stream_icd.quality.nmi import nmi
from stream_icd.synthetic.gn import generate_gn
from stream_icd.synthetic.lfr import generate_lfr

MODULARITY = BpParameters()
ANY_KIND = BpParameters(mixing=0.3, scale=250.0)


def near_in_space(n_nodes: int, n_nearest: int) -> csr_array:
    """Points in the plane, each linked to its nearest ones, as taxis are."""
    points = np.random.default_rng(0).normal(size=(n_nodes, 2))
    _, nearest = cKDTree(points).query(points, n_nearest + 1)
    sources = np.repeat(np.arange(n_nodes), n_nearest)
    return as_adjacency((np.stack([sources, nearest[:, 1:].ravel()]), n_nodes))


@pytest.mark.parametrize(("n_nodes", "mixing"), [(1000, 0.3), (5000, 0.3), (5000, 0.6)])
def test_it_finds_what_modularity_joins(n_nodes: int, mixing: float) -> None:
    graph = generate_lfr(np.random.default_rng(3), n_nodes=n_nodes, mixing=mixing)
    plain = find_communities(graph.adjacency(), MODULARITY)
    found = find_communities(graph.adjacency(), ANY_KIND)
    assert nmi(graph.communities, found) > nmi(graph.communities, plain) + 0.005


@pytest.mark.parametrize("scale", [150.0, 250.0, 600.0])
def test_weak_communities_are_found_from_any_start(scale: float) -> None:
    graph = generate_lfr(np.random.default_rng(3), mixing=0.6)
    found = find_communities(graph.adjacency(), BpParameters(mixing=0.3, scale=scale))
    assert nmi(graph.communities, found) > 0.69


@pytest.mark.parametrize(
    ("n_nodes", "mean_degree", "max_degree", "smallest", "largest", "gain"),
    [(2000, 5, 40, 3, 40, 0.07), (250, 10, 20, 5, 20, 0.02), (5000, 10, 100, 10, 1000, 0.001)],
)
def test_small_communities_are_found_beside_large_ones_and_in_small_graphs(
    n_nodes: int, mean_degree: float, max_degree: int, smallest: int, largest: int, gain: float
) -> None:
    graph = generate_lfr(
        np.random.default_rng(3), n_nodes, mean_degree, max_degree, smallest, largest, 0.25
    )
    plain = find_communities(graph.adjacency(), MODULARITY)
    found = find_communities(graph.adjacency(), ANY_KIND)
    assert nmi(graph.communities, found) > nmi(graph.communities, plain) + gain


def test_neighbourhoods_in_space_are_divided_as_modularity_divides_them() -> None:
    """Any cut of them describes many edges, but none is a community that modularity overlooks."""
    graph = near_in_space(1000, 30)
    assert np.array_equal(find_communities(graph, ANY_KIND), find_communities(graph, MODULARITY))


def test_a_smaller_k_than_modularity_finds_merges_its_communities() -> None:
    graph = generate_lfr(np.random.default_rng(3), n_nodes=2000, mixing=0.3).adjacency()
    found, expected = (find_communities(graph, one, 5) for one in (ANY_KIND, MODULARITY))
    assert np.array_equal(found, expected)


def test_not_knowing_k_costs_nothing() -> None:
    graph = generate_gn(np.random.default_rng(3), 2000, 100, 0.4)
    unknown = find_communities(graph.adjacency(), ANY_KIND)
    given = find_communities(graph.adjacency(), ANY_KIND, 100)
    assert len(set(given.tolist())) == 100
    assert nmi(graph.communities, unknown) > nmi(graph.communities, given) - 0.005


@pytest.mark.parametrize("n_communities", [None, 7])
def test_chance_is_divided_as_modularity_divides_it(n_communities: int | None) -> None:
    graph = as_adjacency(nx.gnm_random_graph(500, 1500, seed=1))
    expected = find_communities(graph, MODULARITY, n_communities)
    assert np.array_equal(find_communities(graph, ANY_KIND, n_communities), expected)


def test_hubs_keep_their_communities() -> None:
    """Stars in a ring: their centres have most of the edges, as networks of the Internet have."""
    stars = nx.disjoint_union_all([nx.star_graph(60) for _ in range(5)])
    stars.add_edges_from((61 * i, 61 * ((i + 1) % 5)) for i in range(5))
    found = find_communities(as_adjacency(stars), ANY_KIND)
    assert nmi(np.repeat(np.arange(5), 61), found) > 0.99


def test_the_same_seed_gives_the_same_communities() -> None:
    graph = generate_lfr(np.random.default_rng(3), n_nodes=1000, mixing=0.5).adjacency()
    first, second = (find_communities(graph, ANY_KIND, seed=4) for _ in range(2))
    assert np.array_equal(first, second)


def test_isolated_nodes_and_graphs_without_edges_are_no_error() -> None:
    planted = generate_lfr(np.random.default_rng(3), n_nodes=500, mixing=0.2)
    padded = csr_array(planted.adjacency())
    padded.resize((510, 510))
    found = find_communities(as_adjacency(padded), ANY_KIND)
    assert len(set(found[500:].tolist()) - set(found[:500].tolist())) == 10
    empty = csr_array((3, 3), dtype=float)
    assert len(set(find_communities(empty, ANY_KIND).tolist())) == 3


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), "500", True])
def test_a_scale_that_makes_no_sense_is_refused(scale: object) -> None:
    with pytest.raises(BadSettings, match="scale must be"):
        BpParameters(mixing=0.3, scale=scale)  # type: ignore[arg-type]


def test_a_scale_needs_beliefs() -> None:
    with pytest.raises(BadSettings, match="scale needs a mixing"):
        BpParameters(scale=500.0)
