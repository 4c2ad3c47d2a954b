"""Sums and parts of graphs are those of matrices, with rows that ascend."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from stream_icd.methods.bp.level_graph import Rows, entries_at, rows_of
from stream_icd.methods.memory.sums import added

N = 12


def random_graph(seed: int, n_edges: int, n_nodes: int = N) -> csr_array:
    rng = np.random.default_rng(seed)
    weights = np.zeros((n_nodes, n_nodes))
    for one, other in rng.integers(0, n_nodes, (n_edges, 2)):
        if one != other:
            weights[one, other] = weights[other, one] = rng.uniform(0.5, 2.0)
    return csr_array(weights)


def dense(rows: Rows) -> np.ndarray:
    n_nodes = len(rows.indptr) - 1
    graph = csr_array((rows.weights, rows.indices, rows.indptr), (n_nodes, n_nodes))
    return np.asarray(graph.toarray())


def assert_same(found: Rows, expected: np.ndarray) -> None:
    assert np.array_equal(dense(found), expected)
    for row in range(len(found.indptr) - 1):
        assert (np.diff(found.indices[found.indptr[row] : found.indptr[row + 1]]) > 0).all()
    assert (found.weights != 0).all()


@given(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 40))
def test_evidence_and_a_window_add_up(seed: int, n_known: int, n_new: int) -> None:
    known, window = random_graph(seed, n_known), random_graph(seed + 1, n_new)
    expected = known.toarray() * 0.5 + window.toarray()
    assert_same(added(rows_of(known), 0.5, rows_of(window)), expected)


def test_what_fades_to_nothing_is_no_edge() -> None:
    known, window = random_graph(0, 30) * 0.1, random_graph(1, 10)
    assert_same(added(rows_of(known), 5e-324, rows_of(window)), window.toarray())


@given(st.integers(0, 10**6), st.integers(0, 40), st.sets(st.integers(0, N - 1), min_size=1))
def test_some_nodes_have_their_edges_among_each_other(
    seed: int, n_edges: int, nodes: set[int]
) -> None:
    graph, rows = random_graph(seed, n_edges), np.array(sorted(nodes))
    part = entries_at(rows_of(graph), rows)
    assert_same(part, graph.toarray()[np.ix_(rows, rows)])
    back = np.zeros((N, N))
    back[np.ix_(rows, rows)] = dense(part)
    at = np.full(N, -1)
    at[rows] = np.arange(len(rows))
    assert_same(entries_at(part, at), back)
