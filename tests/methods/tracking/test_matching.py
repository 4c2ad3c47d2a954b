"""The matching is the best there is, and neither labels nor the order of nodes matter."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_icd.core.arrays import NOBODY
from stream_icd.core.communities import Communities
from stream_icd.core.events import CommunityEvents
from stream_icd.methods.tracking import identities
from stream_icd.methods.tracking.identities import NodePartition
from tests.testbed.windows import follow, window

STREAMS = st.integers(1, 24).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, min(4, n - 1)), min_size=n, max_size=n), min_size=1, max_size=5
    )
)


def seen(tracked: CommunityEvents) -> tuple[object, ...]:
    """All that matters: who is where, and what happened, without the labels of the day."""
    events = [(e.kind, e.community, e.size, e.size_before, e.overlap, e.parents, e.children, e.away)
              for e in tracked.events]  # fmt: skip
    return dict(zip(tracked.nodes.to_pylist(), tracked.communities.tolist(), strict=True)), events


def relabelled(communities: Communities, rng: np.random.Generator, hour: int) -> Communities:
    """The same communities with other labels, and nodes in another order."""
    names = rng.permutation(len(communities.labels)).astype(np.int32)
    order = rng.permutation(len(communities.labels))
    return window(hour, names[communities.labels[order]], communities.nodes.take(pa.array(order)))


@given(labels=STREAMS, seed=st.integers(0, 99))
@settings(max_examples=40)
def test_labels_and_the_order_of_nodes_change_nothing(labels: list[list[int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    hours = [window(hour, one) for hour, one in enumerate(labels)]
    changed = [relabelled(communities, rng, hour) for hour, communities in enumerate(hours)]
    assert list(map(seen, follow(changed))) == list(map(seen, follow(hours)))


@given(labels=STREAMS)
@settings(max_examples=25)
def test_ids_are_unique_in_a_window_and_everybody_is_accounted_for(labels) -> None:
    tracked = follow(window(hour, one) for hour, one in enumerate(labels))
    merged = set()  # once; what is left of a community that merged ends without a word
    for before, after in zip([None, *tracked], tracked, strict=False):
        living = set(after.communities.tolist())
        assert len(living) == len(set(np.unique(labels[tracked.index(after)])))
        assert living == {e.community for e in after.events if e.label is not None}
        gone = set(before.communities.tolist()) - living if before else set()
        ends = {e.community for e in after.events if e.label is None}
        merged |= {p for e in after.events if e.kind == "merged" for p in e.parents}
        assert ends <= gone <= ends | merged
        assert after.next_community > max(living)


@given(
    st.lists(st.integers(0, 3), min_size=8, max_size=30),
    st.lists(st.integers(0, 3), min_size=30, max_size=30),
    st.sampled_from([0.05, 0.3, 0.5]),
)
@settings(max_examples=40)
def test_no_other_matching_has_more_overlap(old: list[int], new: list[int], least: float) -> None:
    nodes = pa.array(range(len(old)))
    a = NodePartition.by_name(nodes, np.array(old))
    b = NodePartition.by_first_node(nodes, np.array(new[: len(old)], np.int32))
    found = a.overlaps(b).matched(least)
    sets = [[set(np.flatnonzero(p.labels == c)) for c in range(p.n_communities)] for p in (a, b)]

    def weight(partners: tuple[int, ...]) -> float:
        jaccard = [len(sets[0][i] & sets[1][j]) / len(sets[0][i] | sets[1][j])
                   for j, i in enumerate(partners) if 0 <= i < a.n_communities]  # fmt: skip
        return sum(value for value in jaccard if value >= least)

    padded = [*range(a.n_communities), *[-1] * b.n_communities]
    best = max(map(weight, permutations(padded, b.n_communities)))
    assert weight(tuple(found)) == pytest.approx(best)
    matched = found[found != NOBODY]
    assert len(set(matched)) == len(matched)


def test_a_long_chain_of_alike_communities_takes_no_table_of_all_their_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identities, "linear_sum_assignment", None)
    at = np.arange(20_000)
    old, new = (NodePartition.by_first_node(pa.array(at), (at + shift) // 2) for shift in (0, 1))
    between = old.overlaps(new)  # each community has a node of each of its two neighbours
    found = between.matched(0.3)
    matched = found[found != NOBODY]
    assert len(set(matched.tolist())) == len(matched) >= 5_000
    pairs = set(zip(between.old.tolist(), between.new.tolist(), strict=True))
    assert {(old, new) for new, old in enumerate(found.tolist()) if old != NOBODY} <= pairs
