"""LFR graphs are those of the paper, and streams of them change as their record says."""

from itertools import pairwise

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
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
    sizes, support = (
        np.concatenate([np.bincount(g.communities) for g in graphs]),
        np.arange(10, 201),
    )
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
        lfr(**settings)


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


def test_impossible_streams_are_refused_at_once() -> None:
    for settings in ({"churn": 1.5}, {"event_rate": -0.1}, {"n_snapshots": -1}):
        with pytest.raises(BadSettings, match=next(iter(settings))):
            generate_drifting_lfr(0, **{"n_snapshots": 2, **settings})  # type: ignore[arg-type]
