"""The simulated stream: known communities in every snapshot, and the same seed, the same bytes."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest

from stream_icd.core.communities import Labels
from stream_icd.core.errors import BadSettings
from stream_icd.core.snapshot import Snapshot
from stream_icd.methods.synthetic.lfr import LfrSettings
from stream_icd.sources.generated import drifting_lfr
from stream_icd.wire.communities import encode_labels
from stream_icd.wire.message import Message
from stream_icd.wire.snapshots import encode_snapshot

SMALL = LfrSettings(n_nodes=300, max_degree=40, max_community=60)


def stream(seed: int = 7, n_snapshots: int = 4, **options: float) -> list[tuple[Snapshot, Labels]]:
    found = drifting_lfr(seed, n_snapshots, SMALL, **options)  # type: ignore[arg-type]
    assert found.total == n_snapshots
    pairs = []
    for snapshot, labels in found.snapshots:
        assert labels is not None
        pairs.append((snapshot, labels))
    return pairs


def messages(pairs: list[tuple[Snapshot, Labels]]) -> list[tuple[Message, Message]]:
    return [(encode_snapshot(snapshot), encode_labels(labels)) for snapshot, labels in pairs]


def test_every_snapshot_comes_with_the_planted_communities_of_its_own_nodes() -> None:
    pairs = stream()
    for snapshot, labels in pairs:
        assert (labels.graph, labels.snapshot_id) == (snapshot.graph, snapshot.id)
        assert labels.window == snapshot.window
        assert labels.nodes.equals(snapshot.nodes)
        assert (snapshot.n_nodes, snapshot.n_communities) == (300, len(np.unique(labels.labels)))
        low, high = labels.labels[snapshot.edges]
        assert np.mean(low != high) == pytest.approx(SMALL.mixing, abs=0.05)
    for (before, _), (after, _) in pairwise(pairs):
        assert after.window.start == before.window.end
        assert after.window.end - after.window.start == timedelta(minutes=1)
    assert len({snapshot.id for snapshot, _ in pairs}) == len(pairs)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    assert messages(stream(seed=7, n_snapshots=6))[:4] == messages(stream(seed=7))
    assert messages(stream(seed=7)) != messages(stream(seed=8))


def test_communities_stay_where_nothing_drifts() -> None:
    pairs = stream(churn=0.0, event_rate=0.0)
    for (_, before), (_, after) in pairwise(pairs):
        assert np.array_equal(before.labels, after.labels)
    moved = stream(churn=0.2, event_rate=0.0)
    assert not np.array_equal(moved[0][1].labels, moved[1][1].labels)


def test_after_a_change_of_the_law_the_same_nodes_form_other_communities() -> None:
    later = LfrSettings(n_nodes=300, max_degree=20, min_community=5, max_community=20, mixing=0.6)

    def changing(n_snapshots: int) -> list[tuple[Snapshot, Labels]]:
        found = drifting_lfr(7, n_snapshots, SMALL, churn=0.0, change=(2, later))
        return [(snapshot, labels) for snapshot, labels in found.snapshots if labels is not None]

    pairs = changing(4)
    assert [messages([pair]) for pair in pairs[:3]] == [messages([one]) for one in changing(3)]
    assert np.array_equal(pairs[0][1].labels, stream(churn=0.0)[0][1].labels)
    for at, (snapshot, labels) in enumerate(pairs):
        low, high = labels.labels[snapshot.edges]
        assert np.mean(low != high) == pytest.approx(0.3 if at < 2 else 0.6, abs=0.07)
        assert np.bincount(labels.labels).max() <= (60 if at < 2 else 20)
        assert snapshot.n_nodes == 300
    assert [one.window.start for one, _ in pairs] == [one.window.start for one, _ in stream()]


@pytest.mark.parametrize("option", ["churn", "event_rate"])
def test_a_share_above_one_is_refused_before_anything_is_made(option: str) -> None:
    with pytest.raises(BadSettings, match=option):
        drifting_lfr(7, 4, SMALL, **{option: 1.5})  # type: ignore[arg-type]
