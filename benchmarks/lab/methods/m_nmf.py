"""M-NMF: a factorisation that keeps both the neighbourhoods and the modularity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from benchmarks.lab.clustering import clustered, dimension
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

ETA, ALPHA, BETA, LAMBDA = 5.0, 0.5, 0.5, 1e9
"""η of second-order proximity; α of the communities' part; β of modularity; λ of HᵀH = I."""

ITERATIONS = 100
TINY = 1e-12

Matrix = NDArray[np.float64]


def similarity(adjacency: csr_array) -> csr_array:
    """S = S⁽¹⁾ + η S⁽²⁾ (section 3.1): the adjacency, and the cosine of its rows."""
    lengths = np.sqrt(np.asarray(adjacency.power(2).sum(axis=1)).ravel())
    rows = diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ adjacency
    return csr_array(adjacency + ETA * (rows @ rows.T))


def embed(adjacency: csr_array, k: int, width: int, seed: int) -> Matrix:
    """U (n, d) of min ‖S − MUᵀ‖² + α‖H − UCᵀ‖² − β tr HᵀBH with HᵀH = I, by the updates of
    section 3.3: equations for M, U, C and H.
    """
    rng = np.random.default_rng(seed)
    n_nodes = adjacency.shape[0]
    near = similarity(adjacency)
    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    basis, embedding = rng.random((2, n_nodes, width))  # M, U: (n, d)
    members, centres = rng.random((n_nodes, k)), rng.random((k, width))  # H: (n, K), C: (K, d)
    for _ in range(ITERATIONS):
        basis *= near @ embedding / (basis @ (embedding.T @ embedding) + TINY)
        pulled = near @ basis + ALPHA * members @ centres
        gram = basis.T @ basis + ALPHA * centres.T @ centres
        embedding *= pulled / (embedding @ gram + TINY)
        centres *= members.T @ embedding / (centres @ (embedding.T @ embedding) + TINY)
        members *= _members_factor(adjacency, degrees, members, embedding @ centres.T)
    return embedding


def _members_factor(
    adjacency: csr_array, degrees: NDArray[np.float64], members: Matrix, expected: Matrix
) -> Matrix:
    """sqrt((−2βB₁H + √Δ) / 8λHHᵀH), Δ = (2βB₁H)² + 16λHHᵀH (2βAH + 2αUCᵀ + (4λ − 2α)H)."""
    null = 2 * BETA * np.outer(degrees, degrees @ members) / degrees.sum()  # 2βB₁H
    orthogonal = members @ (members.T @ members)
    wanted = 2 * BETA * (adjacency @ members) + 2 * ALPHA * expected
    wanted += (4 * LAMBDA - 2 * ALPHA) * members
    root = np.sqrt(null**2 + 16 * LAMBDA * orthogonal * wanted)
    return np.asarray(np.sqrt((root - null) / (8 * LAMBDA * orthogonal + TINY)))


def find(task: Task) -> Labels:
    """Embed, then K-means."""
    with task.stage("embed"):
        embedding = embed(task.adjacency, task.k(), dimension(task), task.seed)
    return clustered(task, embedding)


METHODS = {
    "m-nmf": EvaluatedMethod(
        find, "Wang et al. 2017, sections 3.1 to 3.3", k="needed", weighted=True
    ),
}
