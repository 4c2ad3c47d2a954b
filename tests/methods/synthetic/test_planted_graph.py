import numpy as np

from stream_icd.methods.synthetic.planted_graph import PlantedGraph, ordered_edges, shuffle_nodes

PATH = np.array([[2, 0, 3], [1, 1, 2]])  # 0 - 1 - 2 - 3, in a careless order
LABELS = np.array([0, 0, 1, 1, 1], dtype=np.int32)


def test_adjacency_keeps_the_graph_contract() -> None:
    graph = PlantedGraph(5, ordered_edges(PATH, 5), LABELS)
    adjacency = graph.adjacency()
    assert adjacency.shape == (5, 5)  # node 4 is isolated, and counts
    assert adjacency.dtype == np.float64
    assert adjacency.has_canonical_format
    assert adjacency.toarray().tolist() == [
        [0, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert graph.n_communities == 2


def test_edges_are_put_in_lexicographic_order() -> None:
    assert ordered_edges(PATH, 5).tolist() == [[0, 1, 2], [1, 2, 3]]


def test_a_graph_without_edges_has_an_adjacency() -> None:
    graph = PlantedGraph(3, np.empty((2, 0), dtype=np.int64), np.zeros(3, dtype=np.int32))
    assert graph.adjacency().nnz == 0


def test_shuffling_moves_nodes_with_their_edges_and_communities() -> None:
    shuffled = shuffle_nodes(np.random.default_rng(1), PATH, LABELS)
    first, second = shuffled.communities[shuffled.edges]
    assert (first == second).sum() == 2  # 0-1 and 2-3 were inside, 1-2 was not
    assert sorted(np.bincount(shuffled.edges.ravel(), minlength=5)) == [0, 1, 1, 2, 2]
    assert not np.array_equal(shuffled.communities, LABELS)
