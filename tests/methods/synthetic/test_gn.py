import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.planted_graph import PlantedGraph


def inside_share(graph: PlantedGraph) -> float:
    first, second = graph.communities[graph.edges]
    return float((first == second).mean())


def test_edges_are_as_many_as_in_the_paper() -> None:
    p_in, expected_edges = 0.3, 49_250
    graphs = [generate_gn(np.random.default_rng(seed), p_in=p_in) for seed in range(4)]
    mean = np.mean([graph.edges.shape[1] for graph in graphs])
    assert mean == pytest.approx(expected_edges, abs=4 * (expected_edges / 4) ** 0.5)
    inside = np.mean([inside_share(graph) for graph in graphs])
    assert inside == pytest.approx(47_500 * p_in / expected_edges, abs=0.006)


def test_communities_are_equal_and_edges_simple() -> None:
    graph = generate_gn(np.random.default_rng(0))
    assert graph.n_communities == 250
    assert graph.communities.dtype == np.int32
    assert set(np.bincount(graph.communities)) == {20}
    assert graph.edges.dtype == np.int64
    assert (graph.edges[0] < graph.edges[1]).all()
    assert np.unique(graph.edges, axis=1).shape == graph.edges.shape


def test_the_default_outside_is_shared_among_the_other_communities() -> None:
    graph = generate_gn(np.random.default_rng(0), n_nodes=600, n_communities=3, p_in=0.8)
    outside = (1 - inside_share(graph)) * graph.edges.shape[1]
    assert outside == pytest.approx(3 * 200 * 200 * 0.2 / 2, rel=0.05)


def test_sizes_differ_by_at_most_one_where_nodes_do_not_divide() -> None:
    graph = generate_gn(np.random.default_rng(0), n_nodes=101, n_communities=7)
    assert set(np.bincount(graph.communities)) == {14, 15}


def test_certain_probabilities_give_cliques_and_complete_graphs() -> None:
    cliques = generate_gn(np.random.default_rng(0), 60, 6, p_in=1.0, p_out=0.0)
    assert cliques.edges.shape[1] == 6 * 45
    assert inside_share(cliques) == 1
    complete = generate_gn(np.random.default_rng(0), 60, 6, p_in=1.0, p_out=1.0)
    assert complete.edges.shape[1] == 60 * 59 // 2


def test_every_pair_is_equally_likely() -> None:
    adjacency = sum(
        generate_gn(np.random.default_rng(seed), 6, 1, p_in=0.4).adjacency().toarray()
        for seed in range(500)
    )
    assert np.allclose(adjacency[~np.eye(6, dtype=bool)] / 500, 0.4, atol=0.1)


def test_one_community_and_all_alone_are_allowed() -> None:
    assert generate_gn(np.random.default_rng(0), 30, 1).n_communities == 1
    assert generate_gn(np.random.default_rng(0), 30, 30, p_in=1.0).edges.shape == (2, 0)


def test_same_seed_same_graph_and_ids_say_nothing() -> None:
    first, again, other = (generate_gn(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first.edges, again.edges)
    assert np.array_equal(first.communities, again.communities)
    assert not np.array_equal(first.communities, other.communities)
    assert abs(np.corrcoef(np.arange(5000), first.communities)[0, 1]) < 0.06


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p_in": 1.2}, "p_in"),
        ({"p_out": -0.1}, "p_out"),
        ({"n_communities": 0}, "0 communities of 5000 nodes"),
        ({"n_communities": 5001}, "5001 communities of 5000 nodes"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        generate_gn(np.random.default_rng(0), **settings)  # type: ignore[arg-type]
