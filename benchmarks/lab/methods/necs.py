"""NECS: a factorisation that keeps high-order proximity, and agrees with the communities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.preprocessing import normalize

from benchmarks.lab.clustering import clustered, dimension
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

ORDER, DECAY = 3, 0.1
"""P = A + w A² + w² A³, with w the decay."""

ALPHA, BETA, LAMBDA = 0.1, 1.0, 1e8
"""α of the communities' part; β of the agreement of both parts; λ of HᵀH = I."""

ITERATIONS = 60
TINY = 1e-12

Matrix = NDArray[np.float64]


def proximity(adjacency: csr_array, factor: Matrix) -> Matrix:
    """P times a matrix (n, d), without the dense P."""
    product = adjacency @ factor
    for _ in range(ORDER - 1):
        product = adjacency @ (factor + DECAY * product)
    return product


def similarity(adjacency: csr_array) -> csr_array:
    """S: the cosine of the rows of the adjacency."""
    lengths = np.sqrt(np.asarray(adjacency.power(2).sum(axis=1)).ravel())
    rows = csr_array(diags_array(1 / np.where(lengths > 0, lengths, 1.0)) @ adjacency)
    return csr_array(rows @ rows.T)


def embed(adjacency: csr_array, k: int, width: int, seed: int) -> Matrix:
    """U (n, d) of min ‖P − VUᵀ‖² + α‖S − HHᵀ‖² + β‖H − UWᵀ‖² + λ‖HᵀH − I‖² over factors ≥ 0, by
    multiplicative updates. That of H is the fourth root, since H occurs to the fourth power. The
    rows have length 1: without this, NMI on L(f,.6) is 23 instead of 51, as in the ICD paper.
    """
    rng = np.random.default_rng(seed)
    n_nodes = adjacency.shape[0]
    near = similarity(adjacency)
    basis, embedding = rng.random((2, n_nodes, width))  # V, U: (n, d)
    members, links = rng.random((n_nodes, k)), rng.random((k, width))  # H: (n, K), W: (K, d)
    for _ in range(ITERATIONS):
        basis *= _root(proximity(adjacency, embedding), basis @ (embedding.T @ embedding), 2)
        pulled = proximity(adjacency, basis) + BETA * members @ links
        gram = basis.T @ basis + BETA * links.T @ links
        embedding *= _root(pulled, embedding @ gram, 2)
        links *= _root(members.T @ embedding, links @ (embedding.T @ embedding), 2)
        wanted = 4 * ALPHA * (near @ members) + 2 * BETA * embedding @ links.T
        wanted += (4 * LAMBDA - 2 * BETA) * members
        had = 4 * (ALPHA + LAMBDA) * members @ (members.T @ members)
        members *= _root(wanted, had, 4)
    return np.asarray(normalize(embedding))


def _root(wanted: Matrix, had: Matrix, power: int) -> Matrix:
    return np.asarray((wanted / np.maximum(had, TINY)) ** (1 / power))


def find(task: Task) -> Labels:
    """Embed, then K-means."""
    with task.stage("embed"):
        embedding = embed(task.adjacency, task.k(), dimension(task), task.seed)
    return clustered(task, embedding)


METHODS = {
    "necs": EvaluatedMethod(
        find, "Li, Wang, Zhang, Zhang, Chang 2019, the joint objective", k="needed", weighted=True
    ),
}
