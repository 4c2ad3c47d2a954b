"""NRP: approximate personalised PageRank by a factorisation, reweighted to keep the degrees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from benchmarks.lab.clustering import clustered, dimension
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

RESTART, STEPS, EPOCHS, RIDGE = 0.15, 20, 10, 10.0
"""α, ℓ₁, ℓ₂ and λ: the paper's (section 5.1)."""

Matrix = NDArray[np.float64]


def approximate_ppr(adjacency: csr_array, width: int, seed: int) -> tuple[Matrix, Matrix]:
    """X and Y, (n, width) each, with XYᵀ near personalised PageRank without its first term
    (algorithm 1).
    """
    left, values, right = randomized_svd(adjacency, width, random_state=seed)
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    inverse = diags_array(1 / np.where(degrees > 0, degrees, 1.0))
    transition = csr_array(inverse @ adjacency)
    first = inverse @ (left * np.sqrt(values))
    forward = first
    for _ in range(2, STEPS + 1):
        forward = (1 - RESTART) * (transition @ forward) + first
    return RESTART * (1 - RESTART) * forward, right.T * np.sqrt(values)


def embed(adjacency: csr_array, width: int, seed: int) -> Matrix:
    """X and Y beside each other, scaled by the learned weights of the nodes (algorithm 3); the rows
    of each have length 1, as in the paper's classification of nodes.

    The weights minimise equation 6 by coordinate descent. Each step is the exact minimum over one
    weight; the paper approximates two of its sums.
    """
    forward, backward = approximate_ppr(adjacency, width // 2, seed)
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    of_forward, of_backward = degrees.copy(), np.ones(len(degrees))
    rng = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        order = rng.permutation(len(degrees))
        _reweight(of_backward, of_forward, backward, forward, degrees, order)
        order = rng.permutation(len(degrees))
        _reweight(of_forward, of_backward, forward, backward, degrees, order)
    scaled = of_forward[:, None] * forward, of_backward[:, None] * backward
    return np.hstack([normalize(one) for one in scaled])


@njit(cache=True)
def _reweight(
    weights: Any, other_weights: Any, own: Any, other: Any, degrees: Any, order: Any
) -> None:
    """One round over the weights b of the rows y of `own`, with f and x those of `other`:

        min Σ_v (Σ_{u≠v} f_u x_u·y_v b_v − d_v)² + Σ_u (Σ_{v≠u} f_u x_u·y_v b_v − d_u)² + λ Σ_v b_v²

    with b at least 1/n. The sums over u are held as vectors, and brought up to date with each b.
    """
    scaled = np.ascontiguousarray((other_weights * other.T).T)  # f_u x_u
    total = scaled.sum(axis=0)
    by_degree = degrees @ scaled
    gram = scaled.T @ scaled
    own_products = (scaled * own).sum(axis=1)  # f_u x_u·y_u
    own_sum = weights @ own  # Σ_v b_v y_v
    excluded = (weights * own_products) @ scaled  # Σ_u b_u (f_u x_u·y_u) f_u x_u
    least = 1.0 / len(weights)
    for v in order:
        row, mine, before = own[v], own_products[v], weights[v]
        reached = total @ row - mine
        rest = own_sum - before * row
        expected = row @ (gram @ rest) - mine * (scaled[v] @ rest)
        expected -= row @ excluded - before * mine * mine
        numerator = degrees[v] * reached + by_degree @ row - degrees[v] * mine - expected
        denominator = reached**2 + row @ (gram @ row) - mine**2 + RIDGE
        weights[v] = max(least, numerator / denominator)
        change = weights[v] - before
        own_sum += change * row
        excluded += change * mine * scaled[v]


def find(task: Task) -> Labels:
    """Embed, then K-means."""
    with task.stage("embed"):
        embedding = embed(task.adjacency, dimension(task), task.seed)
    return clustered(task, embedding)


METHODS = {
    "nrp": EvaluatedMethod(
        find, "Yang et al. 2020, algorithms 1 and 3, equation 6", k="needed", weighted=True
    ),
}
