"""The bits of a change are those by which the edges are described worse without it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import gammaln

from stream_icd.methods.memory.changes import moved


def planted(rng: np.random.Generator, labels: np.ndarray, inside: float, out: float) -> csr_array:
    chances = np.where(labels[:, None] == labels, inside, out)
    upper = np.triu(rng.random(chances.shape) < chances, 1).astype(float)
    return csr_array(upper + upper.T)


def bits_of(graph: csr_array, labels: np.ndarray, mixing: float) -> float:
    """Description of the edges and the partition, up to a constant, one community at a time."""
    dense = graph.toarray() * (graph.nnz / graph.sum())
    seen = dense.sum(axis=1) > 0
    total, nats = dense.sum(), 0.0
    names, sizes = np.unique(labels[seen], return_counts=True)
    for name, size in zip(names, sizes, strict=True):
        members = labels == name
        volume, edges = dense[members].sum(), dense[members][:, members].sum() / 2
        nats -= edges * np.log(1 + (1 - mixing) / mixing * total / volume) + gammaln(size + 1)
    n, k = int(seen.sum()), len(names)
    nats += gammaln(n) - gammaln(k) - gammaln(n - k + 1)
    return nats / np.log(2)


def mixing_of(graph: csr_array, labels: np.ndarray) -> float:
    dense = graph.toarray() * (graph.nnz / graph.sum())
    out = dense[labels[:, None] != labels].sum() / 2
    return (out + 0.5) / (dense.sum() / 2 + 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_bits_are_those_of_describing_the_window_with_the_change_undone(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    before = np.repeat([10, 11, 12, 13], 25)
    now = before.copy()
    now[before == 11] = 10  # 11 went into 10
    now[75:85] = 20  # a part of 13 is new
    now[50:54] = 13  # some of 12 went to 13
    now[0] = 12  # one alone is not told
    graph = planted(rng, now, 0.4, 0.03)
    if weighted:
        heavy = np.triu(rng.random(graph.shape) + 0.5, 1)
        graph = csr_array(graph.multiply(heavy + heavy.T))
    ids, labels = np.unique(now, return_inverse=True)
    found = moved(graph, labels.astype(np.int32), ids, before, 20)
    told = {tuple(pair): bits for pair, bits in zip(found.pairs.tolist(), found.bits, strict=True)}
    assert list(told) == [(-1, 20), (11, 10), (12, 13), (13, 20)]
    mixing = mixing_of(graph, now)
    as_it_is = bits_of(graph, now, mixing)
    for (left, to), bits in told.items():
        undone = now.copy()
        if left != -1:
            undone[(before == left) & (now == to)] = left
            assert bits == pytest.approx(bits_of(graph, undone, mixing) - as_it_is, abs=2e-3)
    links = {
        other: graph[np.flatnonzero(now == 20)][:, np.flatnonzero(now == other)].sum()
        for other in (10, 12, 13)
    }
    undone = np.where(now == 20, max(links, key=lambda one: links[one]), now)
    expected = bits_of(graph, undone, mixing) - as_it_is
    assert told[-1, 20] == pytest.approx(expected, abs=2e-3)


def test_ids_may_be_as_large_as_they_get() -> None:
    graph = planted(np.random.default_rng(2), np.repeat([0, 1], 20), 0.5, 0.02)
    before = np.repeat([10**15 - 3, 10**15 - 2], 20)
    ids = np.arange(10**15 - 50_000, 10**15 - 30_000)
    labels = np.repeat([7, 19_999], 20)
    found = moved(graph, labels.astype(np.int32), ids, before, 10**15)
    assert found.pairs.tolist() == [[10**15 - 3, ids[7]], [10**15 - 2, ids[19_999]]]


def test_true_changes_save_bits_and_wrong_ones_cost_them() -> None:
    rng = np.random.default_rng(5)
    before = np.repeat([0, 1], 40)
    one = np.zeros(80, np.int32)
    for density, is_merger in ((0.3, True), (0.01, False)):
        truth = one if is_merger else before
        graph = planted(rng, truth, 0.3, density if is_merger else 0.01)
        (bits,) = moved(graph, one, np.array([0]), before, 2).bits
        assert (bits > 5) == is_merger
        assert (bits < -5) != is_merger


def test_nothing_changed_and_nothing_there_tell_nothing() -> None:
    graph = planted(np.random.default_rng(1), np.repeat([0, 1], 20), 0.5, 0.02)
    same = np.repeat([0, 1], 20)
    assert moved(graph, same.astype(np.int32), np.array([0, 1]), same, 2).pairs.shape == (0, 2)
    empty = csr_array((4, 4))
    nothing = moved(empty, np.zeros(4, np.int32), np.array([7]), np.array([3, 3, 3, 3]), 7)
    assert nothing.pairs.shape == (0, 2)
