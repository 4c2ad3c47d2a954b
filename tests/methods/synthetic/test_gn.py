"""GN graphs: equal communities, and the probabilities that were asked for."""

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.planted_graph import PlantedGraph


def gn(seed: int = 0, *sizes: int, **settings: float) -> PlantedGraph:
    return generate_gn(np.random.default_rng(seed), *sizes, **settings)


def n_inside(graph: PlantedGraph) -> int:
    return int(np.equal(*graph.communities[graph.edges]).sum())


def test_edges_are_as_many_as_in_the_paper_and_outside_as_all_others_share() -> None:
    graphs = [gn(seed, p_in=0.3) for seed in range(4)]
    n_edges = np.mean([graph.edges.shape[1] for graph in graphs])
    assert n_edges == pytest.approx(49_250, abs=4 * (49_250 / 4) ** 0.5)
    assert np.mean([*map(n_inside, graphs)]) == pytest.approx(47_500 * 0.3, rel=0.02)
    graph = gn(0, 600, 3, p_in=0.8)
    outside = graph.edges.shape[1] - n_inside(graph)
    assert outside == pytest.approx(3 * 200 * 200 * 0.2 / 2, rel=0.05)


def test_communities_are_equal_edges_simple_and_ids_say_nothing() -> None:
    graph, again, other = (gn(seed) for seed in (5, 5, 6))
    assert graph.n_communities == 250
    assert graph.communities.dtype == np.int32
    assert set(np.bincount(graph.communities)) == {20}
    assert graph.edges.dtype == np.int64
    assert (graph.edges[0] < graph.edges[1]).all()
    assert np.unique(graph.edges, axis=1).shape == graph.edges.shape
    assert np.array_equal(graph.edges, again.edges)
    assert np.array_equal(graph.communities, again.communities)
    assert not np.array_equal(graph.communities, other.communities)
    assert abs(np.corrcoef(np.arange(5000), graph.communities)[0, 1]) < 0.06
    assert set(np.bincount(gn(0, 101, 7).communities)) == {14, 15}  # 101 is no multiple of 7


def test_probabilities_of_0_and_1_and_any_number_of_communities_are_allowed() -> None:
    cliques = gn(0, 60, 6, p_in=1.0, p_out=0.0)
    assert cliques.edges.shape[1] == n_inside(cliques) == 6 * 45
    assert gn(0, 60, 6, p_in=1.0, p_out=1.0).edges.shape[1] == 60 * 59 // 2
    assert gn(0, 30, 1).n_communities == 1
    assert gn(0, 30, 30, p_in=1.0).edges.shape == (2, 0)


def test_every_pair_is_equally_likely() -> None:
    adjacency = sum(gn(seed, 6, 1, p_in=0.4).adjacency().toarray() for seed in range(500))
    assert np.allclose(adjacency[~np.eye(6, dtype=bool)] / 500, 0.4, atol=0.1)


def test_impossible_settings_are_refused() -> None:
    for settings, message in (
        ({"p_in": 1.2}, "p_in"),
        ({"p_out": -0.1}, "p_out"),
        ({"n_communities": 0}, "0 communities of 5000 nodes"),
        ({"n_communities": 5001}, "5001 communities of 5000 nodes"),
    ):
        with pytest.raises(BadSettings, match=message):
            gn(**settings)


PATH = np.array([[2, 0, 3], [1, 1, 2]])  # 0 - 1 - 2 - 3, in a careless order
LABELS = np.array([0, 0, 1, 1, 1], np.int32)


def test_a_graph_of_pairs_has_ordered_edges_and_a_canonical_adjacency() -> None:
    graph = PlantedGraph.of_pairs(PATH, LABELS)
    assert graph.edges.tolist() == [[0, 1, 2], [1, 2, 3]]
    adjacency = graph.adjacency()
    assert (adjacency.dtype, adjacency.has_canonical_format) == (np.float64, True)
    path = np.eye(5, k=1) + np.eye(5, k=-1)
    path[4] = path[:, 4] = 0  # node 4 is isolated, and counts
    assert np.array_equal(adjacency.toarray(), path)
    empty = PlantedGraph(3, np.empty((2, 0), np.int64), np.zeros(3, np.int32))
    assert empty.adjacency().nnz == 0


def test_shuffling_moves_nodes_with_their_edges_and_communities() -> None:
    shuffled = PlantedGraph.shuffled(np.random.default_rng(1), PATH, LABELS)
    assert n_inside(shuffled) == 2  # 0-1 and 2-3 were inside, 1-2 was not
    assert sorted(np.bincount(shuffled.edges.ravel(), minlength=5)) == [0, 1, 1, 2, 2]
    assert not np.array_equal(shuffled.communities, LABELS)
