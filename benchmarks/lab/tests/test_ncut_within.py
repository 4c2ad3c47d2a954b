"""NCut of the authors' scripts, against dense matrices and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from benchmarks.lab.ncut_within import ncut_within
from stream_icd.core.errors import BadSettings

TRIANGLES = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)]


def triangles(n_nodes: int = 6) -> csr_array:
    """Two triangles, joined by an edge."""
    dense = np.zeros((n_nodes, n_nodes))
    for first, second in TRIANGLES:
        dense[first, second] = dense[second, first] = 1.0
    return csr_array(dense)


@given(st.integers(1, 15), st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_it_is_the_trace_of_the_scripts(n_nodes: int, seed: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < density, 1)
    weights = upper * rng.uniform(0.1, 5.0, (n_nodes, n_nodes))
    dense = weights + weights.T
    labels = 3 * rng.integers(rng.integers(1, n_nodes + 1), size=n_nodes, dtype=np.int32)
    members = (labels[:, None] == np.unique(labels)).astype(float)  # (n, K)
    floor = 0.1 * dense[dense > 0].mean() if dense.any() else 0.1
    within = np.maximum(np.diag(members.T @ dense @ members), floor)
    scaled = members / np.sqrt(within)
    laplacian = np.diag(dense.sum(axis=1)) - dense
    expected = np.trace(scaled.T @ laplacian @ scaled) / 2
    assert ncut_within(csr_array(dense), labels) == pytest.approx(expected, abs=1e-9, rel=1e-9)


def test_two_triangles_by_hand() -> None:
    halves = np.repeat([0, 1], 3)
    assert ncut_within(triangles(), halves) == pytest.approx((1 / 6 + 1 / 6) / 2)
    assert ncut_within(triangles(), np.zeros(6, dtype=np.int32)) == 0.0
    assert ncut_within(triangles(), np.arange(6)) == pytest.approx(14 / 0.1 / 2)


def test_isolated_nodes_change_nothing_and_no_edges_are_zero() -> None:
    halves = np.repeat([0, 1], 3)
    alone = ncut_within(triangles(8), np.append(halves, [2, 3]))
    assert alone == ncut_within(triangles(8), np.append(halves, [0, 1]))
    assert alone == ncut_within(triangles(), halves)
    assert ncut_within(csr_array((5, 5)), np.arange(5)) == 0.0


@pytest.mark.parametrize("factor", [1e-6, 0.3, 2.0**70, 1e305])
def test_neither_the_unit_nor_the_precision_of_weights_matters(factor: float) -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((300, 300)), 1).astype(np.float32)
    single, labels = csr_array(upper + upper.T), rng.integers(20, size=300)
    double = single.astype(float)
    assert ncut_within(single, labels) == pytest.approx(ncut_within(double, labels), rel=1e-12)
    scaled = ncut_within(double * factor, labels)
    assert scaled == pytest.approx(ncut_within(double, labels), rel=1e-12)


def test_a_graph_and_labels_that_do_not_fit_are_refused() -> None:
    for wrong_graph in (csr_array((5, 5)), csr_array((6, 5)), coo_array((6, 6)), np.eye(6)):
        with pytest.raises(BadSettings):
            ncut_within(wrong_graph, np.zeros(6, dtype=np.int32))
    for wrong in (np.zeros(5, dtype=np.int32), np.zeros(6), np.zeros((6, 1), dtype=np.int32)):
        with pytest.raises(BadSettings):
            ncut_within(triangles(), wrong)
