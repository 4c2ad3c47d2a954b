"""The prior from both sides, against sums over all communities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.methods.bp.prior import N_KEPT, Prior
from stream_icd.methods.memory.smoothing import backward_message, two_sided_prior

K, N = 6, 200
BEFORE, AFTER = 0.8, 0.6
"""η before and after the window."""


def beliefs(rng: np.random.Generator, total: float) -> Prior:
    """Random sparse beliefs about N nodes that add up to `total`; some places are unused."""
    communities = np.array([rng.permutation(K)[:N_KEPT] for _ in range(N)], np.int32)
    n_used = rng.integers(1, N_KEPT + 1, N)[:, None]
    unused = np.arange(N_KEPT) >= n_used
    shares = -np.sort(-rng.random((N, N_KEPT)) * ~unused, axis=1)
    shares *= total / shares.sum(axis=1, keepdims=True)
    return Prior(np.where(unused, -1, communities).astype(np.int32), shares.astype("f4"))


def dense(sizes: NDArray[np.float64], one: Prior) -> NDArray[np.float64]:
    """(N, K): what is missing to 1 is spread by size."""
    table = np.zeros((N, K + 1))
    np.put_along_axis(table, one.communities.astype(np.int64), one.shares.astype(float), axis=1)
    table = table[:, :K]
    spread: NDArray[np.float64] = table + (1 - table.sum(axis=1, keepdims=True)) * sizes
    return spread


@pytest.mark.parametrize("total", [1.0, 0.7])
def test_the_prior_is_that_of_the_chain(total: float) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.dirichlet(np.ones(K))
    past, now = beliefs(rng, total), beliefs(rng, total)
    then = beliefs(rng, 1.0)
    found = two_sided_prior(sizes, past, BEFORE, backward_message(sizes, now, then, AFTER))

    def moves(stay: float) -> NDArray[np.float64]:
        table: NDArray[np.float64] = (1 - stay) * sizes + stay * np.eye(K)  # from row to column
        return table

    predicted = dense(sizes, now) @ moves(AFTER)
    message = (dense(sizes, then) / predicted) @ moves(AFTER).T
    expected = (dense(sizes, past) @ moves(BEFORE)) * message
    expected /= expected.sum(axis=1, keepdims=True)
    few = (found.communities >= 0).sum(axis=1) < N_KEPT  # nothing was left out
    assert few.sum() > 20
    assert dense(sizes, found)[few] == pytest.approx(expected[few], abs=1e-5)


def test_without_a_future_the_prior_is_the_past() -> None:
    rng = np.random.default_rng(2)
    sizes, past, now = rng.dirichlet(np.ones(K)), beliefs(rng, 1.0), beliefs(rng, 1.0)
    nothing = Prior(np.full((N, N_KEPT), -1, np.int32), np.zeros((N, N_KEPT), np.float32))
    found = two_sided_prior(sizes, past, BEFORE, backward_message(sizes, now, nothing, AFTER))
    assert found.communities.tolist() == past.communities.tolist()
    assert found.shares == pytest.approx(BEFORE * past.shares, abs=1e-6)
