"""Moves of single nodes end in a partition whose description no such move shortens."""

from __future__ import annotations

from math import inf, lgamma, log1p

import numpy as np
import pytest
from scipy.sparse import csr_array

from stream_icd.core.arrays import Labels
from stream_icd.methods.bp.description_moves import moved_by_description
from stream_icd.methods.bp.level_graph import compact, finest_level
from stream_icd.methods.quality.agreement import nmi
from stream_icd.methods.quality.partition import description_length
from tests.methods.bp.graphs import cliques, graph_of, labels_of, lfr


def saved(adjacency: csr_array, labels: Labels, mixing: float) -> float:
    """Nats that the communities save with this mixing, less those of their own description."""
    k, volumes = int(labels.max()) + 1, np.bincount(labels, adjacency.sum(axis=1))
    within = np.zeros(k)
    for one, other, weight in zip(*adjacency.nonzero(), adjacency.data, strict=True):
        within[labels[one]] += weight / 2 * (labels[one] == labels[other])
    lift = (1 - mixing) / mixing * adjacency.sum()
    nats = sum(
        inside * log1p(lift / volume) for inside, volume in zip(within, volumes, strict=True)
    )
    sizes = np.bincount(labels)
    code = lgamma(len(labels)) - lgamma(k) - lgamma(len(labels) - k + 1)
    return float(nats + sum(lgamma(size + 1) for size in sizes) - code)


@pytest.mark.parametrize("seed", range(3))
def test_no_move_of_one_node_shortens_the_description_further(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 60, (2, 260))
    pairs[1, :160] = (pairs[0, :160] // 15 * 15 + rng.integers(0, 15, 160)) % 60  # four groups
    graph = graph_of(
        60, np.concatenate([pairs, np.stack([range(60), np.roll(range(60), 1)])], 1), 1
    )
    graph.data = rng.uniform(0.5, 2, len(graph.data))
    graph = csr_array(graph + graph.T)
    start = rng.integers(0, 9, 60).astype(np.int32)
    level, found, before = finest_level(graph), start, None
    while before is None or found.tolist() != before.tolist():  # each time, all nodes may move
        before = found
        found = moved_by_description(level, before, rng)

    assert found.max() < 9
    assert description_length(graph, found) < description_length(graph, start)
    ends = graph.nonzero()
    mixing = float(graph.data[found[ends[0]] != found[ends[1]]].sum() / graph.data.sum())
    best = -inf
    for node, neighbour in zip(*ends, strict=True):
        other = found.copy()
        other[node] = found[neighbour]
        best = max(best, saved(graph, compact(other)[0], mixing))
    assert best <= saved(graph, found, mixing) + 1e-6


def test_nodes_that_strayed_find_back() -> None:
    planted = lfr(0, n_nodes=1000, mixing=0.2)
    graph, rng = planted.adjacency(), np.random.default_rng(0)
    strayed = planted.communities.astype(np.int32)
    away = rng.random(len(strayed)) < 0.2
    strayed[away] = rng.integers(0, strayed.max() + 1, away.sum())
    found = moved_by_description(finest_level(graph), strayed, rng)
    assert nmi(planted.communities, found) > 0.99
    assert description_length(graph, found) < description_length(graph, strayed)


def test_the_last_node_of_a_community_may_leave_it() -> None:
    """A new node is a community of its own first."""
    labels = labels_of(9, 9)
    labels[0] = 2
    found = moved_by_description(finest_level(cliques(9, 9)), labels, np.random.default_rng(0))
    assert found.tolist() == labels_of(9, 9).tolist()
