"""ProNE: a sparse factorisation, then a spectral propagation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.special import iv
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from benchmarks.lab.clustering import clustered, dimension
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

NEGATIVE_EXPONENT = 0.75
ORDER, MU, THETA = 10, 0.2, 0.5
"""Terms of the Chebyshev expansion, and μ and θ of the filter g(λ) = exp(−½((λ − μ)² − 1)θ)."""

Matrix = NDArray[np.float64]


def factorise(adjacency: csr_array, width: int, seed: int) -> Matrix:
    """Factors (n, d) of log p_ij − log P_j on the edges (equation 3), p_ij the transition
    probability and P_j the probability of j as a negative sample.
    """
    transition = _row_normalised(adjacency)
    negative = np.asarray(transition.sum(axis=0)).ravel() ** NEGATIVE_EXPONENT
    negative /= negative.sum()
    target = transition.copy()
    target.data = np.log(transition.data) - np.log(negative[transition.indices])
    left, values, _ = randomized_svd(target, width, random_state=seed)
    return np.asarray(normalize(left * np.sqrt(values)))


def propagate(adjacency: csr_array, embedding: Matrix) -> Matrix:
    """Apply the band-pass filter by its Chebyshev expansion (section 3.2), and orthogonalise."""
    n_nodes = adjacency.shape[0]
    with_loops = csr_array(adjacency + eye_array(n_nodes))
    shifted = csr_array((1 - MU) * eye_array(n_nodes) - _row_normalised(with_loops))
    before = embedding
    current = 0.5 * (shifted @ (shifted @ embedding)) - embedding
    filtered = iv(0, THETA) * before - 2 * iv(1, THETA) * current
    for term in range(2, ORDER):
        following = shifted @ (shifted @ current) - 2 * current - before
        filtered += (-1) ** term * 2 * iv(term, THETA) * following
        before, current = current, following
    left, values, _ = np.linalg.svd(with_loops @ (embedding - filtered), full_matrices=False)
    return np.asarray(normalize(left * np.sqrt(values)))


def find(task: Task) -> Labels:
    """Factorise, propagate, then K-means."""
    with task.stage("embed"):
        embedding = factorise(task.adjacency, dimension(task), task.seed)
    with task.stage("propagate"):
        embedding = propagate(task.adjacency, embedding)
    return clustered(task, embedding)


def _row_normalised(adjacency: csr_array) -> csr_array:
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    return csr_array(diags_array(1 / np.where(degrees > 0, degrees, 1.0)) @ adjacency)


METHODS = {
    "prone": EvaluatedMethod(
        find,
        "Zhang, Dong, Wang, Tang, Ding 2019, equation 3 and section 3.2",
        k="needed",
        weighted=True,
    ),
}
