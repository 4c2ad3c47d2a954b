"""Generated streams: the paper's statistics, known communities, and shifts where they are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.sources.generated import drifting_lfr, independent_gn, independent_lfr
from stream_icd.sources.source import Source

SMALL = LfrSettings(n_nodes=500, max_degree=40, max_community=60)
DRIFTING = LfrSettings(n_nodes=300, max_degree=40, max_community=60)


def taken(source: Source) -> list[tuple[Snapshot, Labels]]:
    pairs = [(snapshot, labels) for snapshot, labels in source.snapshots if labels is not None]
    assert len(pairs) == source.total
    return pairs


def outside(snapshot: Snapshot, labels: Labels) -> float:
    """Share of the edges that leave their community."""
    low, high = labels.labels[snapshot.edges]
    return float(np.mean(low != high))


def test_gn_has_the_papers_sizes_and_its_truth() -> None:
    ((snapshot, labels),) = taken(independent_gn(0, 1))
    assert (snapshot.n_nodes, snapshot.n_communities) == (5000, 250)
    assert snapshot.n_edges == pytest.approx(49_250, rel=0.02)
    assert np.bincount(labels.labels).tolist() == [20] * 250
    assert labels.nodes.equals(snapshot.nodes)


def test_the_number_of_nodes_may_be_drawn() -> None:
    drawn = {s.n_nodes for s, _ in taken(independent_lfr(0, 6, SMALL, most_nodes=700))}
    assert len(drawn) > 1
    assert drawn <= set(range(500, 701))


def test_mixing_shifts_halfway_or_evenly() -> None:
    def mixing(shift: str) -> list[float]:
        source = independent_lfr(0, 4, SMALL, shift=shift, mixing_after=0.6)  # type: ignore[arg-type]
        return [outside(snapshot, labels) for snapshot, labels in taken(source)]

    assert mixing("none") == pytest.approx([0.3] * 4, abs=0.03)
    assert mixing("sudden") == pytest.approx([0.3, 0.3, 0.6, 0.6], abs=0.03)
    assert mixing("gradual") == pytest.approx([0.3, 0.4, 0.5, 0.6], abs=0.03)
    source = independent_gn(0, 2, n_nodes=1000, n_communities=50, shift="sudden", p_in_after=0.1)
    before, after = (outside(snapshot, labels) for snapshot, labels in taken(source))
    assert after > before + 0.1


def test_other_settings_are_other_sources() -> None:
    options: list[dict[str, Any]] = [
        {}, {"seed": 1}, {"n_communities": 4}, {"p_in": 0.5},
        {"shift": "sudden"}, {"shift": "gradual"}, {"shift": "sudden", "p_in_after": 0.1},
    ]  # fmt: skip
    common = {"seed": 0, "n_snapshots": 1, "n_nodes": 40, "n_communities": 2}
    sources = {taken(independent_gn(**(common | changed)))[0][0].source for changed in options}
    assert len(sources) == len(options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: independent_gn(0, 1, n_nodes=5, n_communities=6),
        lambda: independent_gn(0, 1, p_in=1.5),
        lambda: independent_gn(0, 1, n_nodes=10**20),
        lambda: independent_lfr(0, 1, SMALL, most_nodes=10**20),
        lambda: independent_lfr(0, 1, SMALL, most_nodes=100),
        lambda: independent_lfr(0, 1, SMALL, shift="sudden", mixing_after=1.5),
        lambda: drifting_lfr(0, 1, SMALL, churn=1.5),
        lambda: drifting_lfr(0, 1, SMALL, event_rate=1.5),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(make: object) -> None:
    with pytest.raises(BadSettings):
        make()  # type: ignore[operator]


def stream(seed: int = 7, n_snapshots: int = 4, **options: float) -> list[tuple[Snapshot, Labels]]:
    source = drifting_lfr(seed, n_snapshots, DRIFTING, **options)  # type: ignore[arg-type]
    return taken(source)


def test_after_a_change_of_the_law_the_same_nodes_form_other_communities() -> None:
    later = LfrSettings(n_nodes=300, max_degree=20, min_community=5, max_community=20, mixing=0.6)

    def changing(n_snapshots: int) -> list[tuple[Snapshot, Labels]]:
        return taken(drifting_lfr(7, n_snapshots, DRIFTING, churn=0.0, change=(2, later)))

    pairs = changing(4)
    assert [s for s, _ in pairs[:3]] == [s for s, _ in changing(3)]
    assert np.array_equal(pairs[0][1].labels, stream(churn=0.0)[0][1].labels)
    for at, (snapshot, labels) in enumerate(pairs):
        assert outside(snapshot, labels) == pytest.approx(0.3 if at < 2 else 0.6, abs=0.07)
        assert np.bincount(labels.labels).max() <= (60 if at < 2 else 20)
        assert snapshot.n_nodes == 300
    assert [s.window.start for s, _ in pairs] == [s.window.start for s, _ in stream()]
