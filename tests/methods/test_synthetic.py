"""LFR and GN graphs are those of the papers; LFR streams change as their record says."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.gn import generate_gn
from stream_icd.methods.synthetic.lfr import Drift, LfrSettings, generate_drifting_lfr, generate_lfr
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

SMALL = LfrSettings(n_nodes=1000, max_degree=60, max_community=120)
Step = tuple[PlantedGraph, Drift]


def lfr(seed: int = 0, **settings: float) -> PlantedGraph:
    return generate_lfr(np.random.default_rng(seed), LfrSettings(**settings))  # type: ignore[arg-type]


def degrees(graph: PlantedGraph) -> np.ndarray:
    return np.bincount(graph.edges.ravel(), minlength=graph.n_nodes)


def leaving(graph: PlantedGraph) -> np.ndarray:
    return np.not_equal(*graph.communities[graph.edges])


def check_simple(graph: PlantedGraph, settings: LfrSettings) -> None:
    sizes = np.bincount(graph.communities)
    assert settings.min_community <= sizes.min() <= sizes.max() <= settings.max_community
    assert sizes.sum() == settings.n_nodes
    assert degrees(graph).max() <= settings.max_degree
    assert (graph.edges[0] < graph.edges[1]).all()
    assert np.unique(graph.edges, axis=1).shape == graph.edges.shape


@pytest.mark.parametrize("mixing", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_mixing_degrees_and_sizes_are_the_papers(mixing: float) -> None:
    graphs = [lfr(seed, mixing=mixing) for seed in range(6)]
    of_edges, of_nodes = [], []
    for graph in graphs:
        check_simple(graph, LfrSettings(mixing=mixing))
        of_edges.append(leaving(graph).mean())
        external = np.bincount(graph.edges[:, leaving(graph)].ravel(), minlength=graph.n_nodes)
        of_nodes.append(np.mean(external / np.maximum(degrees(graph), 1)))
    assert np.mean(of_edges) == pytest.approx(mixing, abs=0.005 * (0 < mixing < 1))
    assert np.mean(of_nodes) == pytest.approx(mixing, abs=0.005)
    n_edges = [graph.edges.shape[1] for graph in graphs]
    assert 23_500 < min(n_edges) <= max(n_edges) < 26_500
    assert 24_400 < np.mean(n_edges) < 25_200
    assert 70 < np.mean([graph.n_communities for graph in graphs]) < 90
    # Both follow power laws: degrees below 2 low against those above, and sizes below 45.
    tail = np.concatenate([degrees(graph) for graph in graphs])
    for low in (5, 10, 20):
        support = np.arange(low, 4 * low, dtype=float) ** -2
        n_low, n_high = (((tail >= n * low) & (tail < 2 * n * low)).sum() for n in (1, 2))
        assert n_low / n_high == pytest.approx(support[:low].sum() / support[low:].sum(), rel=0.1)
    sizes = np.concatenate([np.bincount(graph.communities) for graph in graphs])
    support = np.arange(10, 201)
    expected = (1 / support[support < 45]).sum() / (1 / support).sum()
    assert np.mean(sizes < 45) == pytest.approx(expected, abs=0.06)


def test_a_mean_degree_is_met_by_the_same_graph_for_the_same_seed_and_ids_say_nothing() -> None:
    for mean_degree in (6.5, 15.0, 40.0):
        first, again, other = (lfr(seed, mean_degree=mean_degree, mixing=0.5) for seed in (5, 5, 6))
        means = degrees(first).mean(), degrees(other).mean()
        assert np.mean(means) == pytest.approx(mean_degree, rel=0.03)
        assert np.array_equal(first.edges, again.edges)
        assert np.array_equal(first.communities, again.communities)
        assert not np.array_equal(first.communities, other.communities)
        assert abs(np.corrcoef(np.arange(5000), first.communities)[0, 1]) < 0.06


def test_small_graphs_have_sound_communities() -> None:
    small = LfrSettings(n_nodes=90, mean_degree=6, max_degree=20, max_community=40)
    for seed in range(20):
        graph = generate_lfr(np.random.default_rng(seed), small)
        check_simple(graph, small)
        assert graph.edges.shape[1] > 200


def stream(seed: int = 3, n_snapshots: int = 12, **settings: float) -> list[Step]:
    return list(generate_drifting_lfr(seed, n_snapshots, SMALL, **settings))


def homes(step: Step) -> np.ndarray:
    graph, drift = step
    return drift.identities[graph.communities]


def n_events(drift: Drift) -> int:
    return sum(map(len, (drift.merges, drift.splits, drift.births, drift.deaths)))


def test_memberships_change_by_churn_and_events_alone_and_not_before_the_first_window() -> None:
    ((graph, drift),) = stream(n_snapshots=1, event_rate=1.0)
    assert (n_events(drift), len(drift.moved)) == (0, 0)
    assert len(drift.identities) == graph.n_communities
    (first, _), (second, _) = stream(n_snapshots=2, churn=0.0, event_rate=0.0)
    assert np.array_equal(first.communities, second.communities)
    assert not np.array_equal(first.edges, second.edges)
    for before, after in pairwise(stream(event_rate=0.0, churn=0.05)):
        changed = np.flatnonzero(homes(before) != homes(after))
        assert np.array_equal(after[1].moved, changed)
        assert 0.6 * 50 < len(changed) <= 50
        assert n_events(after[1]) == 0


def test_every_event_is_what_its_record_says_and_identities_are_never_used_again() -> None:
    seen = {"merges": 0, "splits": 0, "births": 0, "deaths": 0}
    gone: set[int] = set()
    for before, after in pairwise(stream(n_snapshots=120, churn=0.0, event_rate=0.15)):
        drift = after[1]
        gone |= set(before[1].identities) - set(drift.identities)
        assert not gone & set(drift.identities)
        if n_events(drift) != 1:
            continue
        old, new = homes(before), homes(after)
        changed = old != new
        for absorbed, survivor in drift.merges:
            assert np.array_equal(changed, old == absorbed)
            assert set(new[changed]) == {survivor}
            assert (old == survivor).sum() >= (old == absorbed).sum()
        for parent, child in drift.splits:
            assert (set(old[changed]), set(new[changed])) == ({parent}, {child})
            assert 0 <= (new == parent).sum() - (new == child).sum() <= 1
        for newborn in drift.births:
            assert newborn not in old
            assert set(new[changed]) == {newborn}
            assert len(set(old[changed])) > 3
        for dead in drift.deaths:
            assert np.array_equal(changed, old == dead)
            assert len(set(new[changed])) > 3
        for name in seen:
            seen[name] += len(getattr(drift, name))
    assert min(seen.values()) >= 2


def test_sizes_mixing_and_degrees_hold_along_a_stream_that_the_seed_decides() -> None:
    steps, again, other = (
        stream(seed, n_snapshots=n, churn=0.05, event_rate=0.5)
        for seed, n in ((3, 40), (3, 8), (4, 1))
    )
    for graph, _ in steps:
        check_simple(graph, SMALL)
    mixing = np.mean([leaving(graph).mean() for graph, _ in steps])
    assert mixing == pytest.approx(SMALL.mixing, abs=0.02)
    # A node is the same node in every snapshot: its degree stays.
    assert np.corrcoef(degrees(steps[0][0]), degrees(steps[-1][0]))[0, 1] > 0.95
    for (graph, drift), (same, same_drift) in zip(steps, again, strict=False):
        assert np.array_equal(graph.edges, same.edges)
        assert np.array_equal(graph.communities, same.communities)
        assert np.array_equal(drift.moved, same_drift.moved)
    assert not np.array_equal(other[0][0].communities, steps[0][0].communities)
    # Hubs keep their edges, however their communities shrink.
    hubs = LfrSettings(n_nodes=1500, mean_degree=20, max_degree=140, mixing=0.1)
    graphs = generate_drifting_lfr(0, 15, hubs, churn=0.05, event_rate=1.0)
    n_edges = [graph.edges.shape[1] for graph, _ in graphs]
    assert np.mean(n_edges[5:]) > 0.97 * n_edges[0]


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


DRIFTING = partial(generate_drifting_lfr, seed=3, n_snapshots=2)


@pytest.mark.parametrize(
    ("made", "settings", "message"),
    [
        (lfr, {"mixing": 1.5}, "mixing"),
        (lfr, {"n_nodes": 15}, "make more nodes"),
        (lfr, {"min_community": 30, "max_community": 20}, "community sizes"),
        (lfr, {"mean_degree": 0.5}, r"mean_degree must be at least 3\.18,"),
        (lfr, {"mean_degree": 100}, r"below max_degree \(100\)"),
        (lfr, {"max_degree": 5000}, "max_degree"),
        (lfr, {"max_degree": 400, "mixing": 0.1}, "max_degree"),
        (lfr, {"n_nodes": 5000, "min_community": 170, "max_community": 171}, "add up"),
        (lfr, {"n_nodes": 104, "max_degree": 100, "min_community": 52, "mixing": 0.0}, "room"),
        (DRIFTING, {"churn": 1.5}, "churn"),
        (DRIFTING, {"event_rate": -0.1}, "event_rate"),
        (DRIFTING, {"n_snapshots": -1}, "n_snapshots"),
        (gn, {"p_in": 1.2}, "p_in"),
        (gn, {"p_out": -0.1}, "p_out"),
        (gn, {"n_communities": 0}, "0 communities of 5000 nodes"),
        (gn, {"n_communities": 5001}, "5001 communities of 5000 nodes"),
    ],
)
def test_impossible_settings_are_refused(
    made: Callable[..., object], settings: dict[str, float], message: str
) -> None:
    with pytest.raises(BadSettings, match=message):
        made(**settings)
