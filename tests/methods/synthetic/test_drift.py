from itertools import pairwise

import numpy as np
import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.methods.synthetic.drift import Drift, generate_drifting_lfr
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.methods.synthetic.planted_graph import PlantedGraph

SMALL = LfrSettings(n_nodes=1000, max_degree=60, max_community=120)
Step = tuple[PlantedGraph, Drift]


def stream(seed: int = 3, n_snapshots: int = 12, **settings: float) -> list[Step]:
    return list(generate_drifting_lfr(seed, n_snapshots, SMALL, **settings))


def homes(step: Step) -> np.ndarray:
    graph, drift = step
    return drift.identities[graph.communities]


def n_events(drift: Drift) -> int:
    return sum(map(len, (drift.merges, drift.splits, drift.births, drift.deaths)))


def test_nothing_happens_before_the_first_snapshot() -> None:
    graph, drift = stream(n_snapshots=1, event_rate=1.0)[0]
    assert n_events(drift) == 0
    assert len(drift.moved) == 0
    assert len(drift.identities) == graph.n_communities


def test_without_events_exactly_the_moved_nodes_change_community() -> None:
    steps = stream(event_rate=0.0, churn=0.05)
    for before, after in pairwise(steps):
        changed = np.flatnonzero(homes(before) != homes(after))
        assert np.array_equal(after[1].moved, changed)
        assert 0.6 * 50 < len(changed) <= 50
        assert n_events(after[1]) == 0


def test_without_churn_and_events_memberships_stay_and_edges_do_not() -> None:
    (first, _), (second, _) = stream(n_snapshots=2, churn=0.0, event_rate=0.0)
    assert np.array_equal(first.communities, second.communities)
    assert not np.array_equal(first.edges, second.edges)


def test_every_event_is_what_its_record_says() -> None:
    seen = {"merges": 0, "splits": 0, "births": 0, "deaths": 0}
    steps = stream(n_snapshots=120, churn=0.0, event_rate=0.15)
    for before, after in pairwise(steps):
        drift = after[1]
        if n_events(drift) != 1:
            continue
        old, new = homes(before), homes(after)
        changed = old != new
        for absorbed, survivor in drift.merges:
            assert np.array_equal(changed, old == absorbed)
            assert set(new[changed]) == {survivor}
            assert (old == survivor).sum() >= (old == absorbed).sum()
        for parent, child in drift.splits:
            assert set(old[changed]) == {parent}
            assert set(new[changed]) == {child}
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


def test_identities_are_never_used_again() -> None:
    steps = stream(n_snapshots=40, churn=0.0, event_rate=0.4)
    gone: set[int] = set()
    for before, after in pairwise(steps):
        gone |= set(before[1].identities) - set(after[1].identities)
        assert not gone & set(after[1].identities)
    assert gone


def test_sizes_mixing_and_degrees_hold_along_the_stream() -> None:
    steps = stream(n_snapshots=40, churn=0.05, event_rate=0.5)
    mixings, degrees = [], []
    for graph, _ in steps:
        sizes = np.bincount(graph.communities)
        assert sizes.min() >= SMALL.min_community
        assert sizes.max() <= SMALL.max_community
        assert np.unique(graph.edges, axis=1).shape == graph.edges.shape
        assert (graph.edges[0] < graph.edges[1]).all()
        mixings.append(np.not_equal(*graph.communities[graph.edges]).mean())
        degrees.append(np.bincount(graph.edges.ravel(), minlength=graph.n_nodes))
    assert np.mean(mixings) == pytest.approx(SMALL.mixing, abs=0.02)
    # A node is the same node in every snapshot: its degree stays.
    assert np.corrcoef(degrees[0], degrees[-1])[0, 1] > 0.95


def test_hubs_keep_their_edges_however_their_communities_shrink() -> None:
    hubs = LfrSettings(n_nodes=1500, mean_degree=20, max_degree=140, mixing=0.1)
    steps = list(generate_drifting_lfr(0, 15, hubs, churn=0.05, event_rate=1.0))
    n_edges = [graph.edges.shape[1] for graph, _ in steps]
    assert np.mean(n_edges[5:]) > 0.97 * n_edges[0]


def test_same_seed_same_stream() -> None:
    for (first, happened), (again, happened_again) in zip(stream(), stream(), strict=True):
        assert np.array_equal(first.edges, again.edges)
        assert np.array_equal(first.communities, again.communities)
        assert np.array_equal(happened.moved, happened_again.moved)
    assert not np.array_equal(stream(seed=4)[0][0].communities, first.communities)


@pytest.mark.parametrize("settings", [{"churn": 1.5}, {"event_rate": -0.1}, {"n_snapshots": -1}])
def test_impossible_settings_are_refused_at_once(settings: dict[str, float]) -> None:
    with pytest.raises(BadSettings, match=next(iter(settings))):
        generate_drifting_lfr(0, **{"n_snapshots": 2, **settings})  # type: ignore[arg-type]
