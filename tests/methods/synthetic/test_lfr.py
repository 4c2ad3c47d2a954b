from functools import cache

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.lfr import LfrSettings, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

SEEDS = range(6)


@cache
def graphs(mixing: float) -> list[PlantedGraph]:
    return [generate_lfr(np.random.default_rng(seed), LfrSettings(mixing=mixing)) for seed in SEEDS]


def degrees(graph: PlantedGraph) -> np.ndarray:
    return np.bincount(graph.edges.ravel(), minlength=graph.n_nodes)


def realised_mixing(graph: PlantedGraph) -> float:
    first, second = graph.communities[graph.edges]
    return float((first != second).mean())


@pytest.mark.parametrize("mixing", [0.1, 0.3, 0.6])
def test_mixing_is_the_one_asked_for(mixing: float) -> None:
    realised = np.mean([realised_mixing(graph) for graph in graphs(mixing)])
    assert realised == pytest.approx(mixing, abs=0.005)


@pytest.mark.parametrize("mixing", [0.3, 0.6])
def test_the_mixing_of_the_mean_node_is_the_one_asked_for(mixing: float) -> None:
    shares = []
    for graph in graphs(mixing):
        leaving = graph.edges[:, np.not_equal(*graph.communities[graph.edges])]
        external = np.bincount(leaving.ravel(), minlength=graph.n_nodes)
        shares.append(np.mean(external / np.maximum(degrees(graph), 1)))
    assert np.mean(shares) == pytest.approx(mixing, abs=0.005)


@pytest.mark.parametrize("mixing", [0.3, 0.6])
def test_edges_degrees_and_sizes_are_the_papers(mixing: float) -> None:
    edges = [graph.edges.shape[1] for graph in graphs(mixing)]
    assert 24_400 < np.mean(edges) < 25_200
    assert min(edges) > 23_500
    assert max(edges) < 26_500
    assert 70 < np.mean([graph.n_communities for graph in graphs(mixing)]) < 90
    for graph in graphs(mixing):
        assert graph.n_nodes == 5000
        assert degrees(graph).max() <= 100
        sizes = np.bincount(graph.communities)
        assert sizes.min() >= 10
        assert sizes.max() <= 200
        assert sizes.sum() == 5000


@pytest.mark.parametrize("mixing", [0.1, 0.3, 0.6])
def test_edges_are_simple(mixing: float) -> None:
    for graph in graphs(mixing):
        assert (graph.edges[0] < graph.edges[1]).all()
        assert np.unique(graph.edges, axis=1).shape == graph.edges.shape


def test_degrees_follow_the_power_law() -> None:
    tail = np.concatenate([degrees(graph) for graph in graphs(0.6)])
    for low in (5, 10, 20):  # P(low <= d < 2 low) / P(2 low <= d < 4 low)
        support = np.arange(low, 4 * low, dtype=float) ** -2
        expected = support[:low].sum() / support[low:].sum()
        counted = ((tail >= low) & (tail < 2 * low)).sum() / (
            (tail >= 2 * low) & (tail < 4 * low)
        ).sum()
        assert counted == pytest.approx(expected, rel=0.06)


def test_community_sizes_follow_the_power_law() -> None:
    sizes = np.concatenate([np.bincount(graph.communities) for graph in graphs(0.3)])
    support = np.arange(10, 201)
    expected = (1 / support[support < 45]).sum() / (1 / support).sum()
    assert np.mean(sizes < 45) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("mean_degree", [6.5, 15.0, 40.0])
def test_another_mean_degree_is_met(mean_degree: float) -> None:
    means = [
        degrees(
            generate_lfr(
                np.random.default_rng(seed), LfrSettings(mean_degree=mean_degree, mixing=0.5)
            )
        )
        for seed in range(2)
    ]
    assert np.mean(means) == pytest.approx(mean_degree, rel=0.03)


def test_no_edge_leaves_at_mixing_zero_and_none_stays_at_one() -> None:
    inside = generate_lfr(np.random.default_rng(0), LfrSettings(mixing=0.0))
    assert realised_mixing(inside) == 0
    outside = generate_lfr(np.random.default_rng(0), LfrSettings(mixing=1.0))
    assert realised_mixing(outside) == 1


def test_same_seed_same_graph_and_ids_say_nothing() -> None:
    first, again, other = (generate_lfr(np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first.edges, again.edges)
    assert np.array_equal(first.communities, again.communities)
    assert not np.array_equal(first.communities, other.communities)
    assert abs(np.corrcoef(np.arange(5000), first.communities)[0, 1]) < 0.06


def test_small_graphs_have_sound_communities() -> None:
    small = LfrSettings(n_nodes=90, mean_degree=6, max_degree=20, max_community=40)
    for seed in range(20):
        graph = generate_lfr(np.random.default_rng(seed), small)
        sizes = np.bincount(graph.communities)
        assert sizes.sum() == 90
        assert sizes.min() >= 10
        assert sizes.max() <= 40
        assert graph.edges.shape[1] > 200


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mixing": 1.5}, "mixing"),
        ({"n_nodes": 15}, "make more nodes"),
        ({"min_community": 30, "max_community": 20}, "community sizes"),
        ({"mean_degree": 0.5}, r"mean_degree must be at least 3\.18,"),
        ({"mean_degree": 100}, r"below max_degree \(100\)"),
        ({"max_degree": 5000}, "max_degree"),
        ({"max_degree": 400, "mixing": 0.1}, "max_degree"),
        ({"n_nodes": 5000, "min_community": 170, "max_community": 171}, "add up"),
        ({"n_nodes": 104, "max_degree": 100, "min_community": 52, "mixing": 0.0}, "room"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(BadSettings, match=message):
        generate_lfr(np.random.default_rng(0), LfrSettings(**settings))  # type: ignore[arg-type]
