"""SNMF: a symmetric non-negative factorisation of the adjacency."""

from __future__ import annotations

import numpy as np

from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

MAX_ITERATIONS = 500
TOLERANCE = 1e-5
"""Relative change of H, in Frobenius norm, at which the iteration ends."""

TINY = 1e-12


def find(task: Task) -> Labels:
    """Minimise ‖A − HHᵀ‖² over H ≥ 0, (n, K), by H ← H ∘ (½ + AH / 2HHᵀH); a node's community is
    the largest entry of its row.
    """
    rng = np.random.default_rng(task.seed)
    adjacency, k = task.adjacency, task.k()
    n_nodes = adjacency.shape[0]
    scale = np.sqrt(adjacency.sum() / n_nodes / k)
    factor = scale * rng.random((n_nodes, k))  # (n, K)
    for _ in range(MAX_ITERATIONS):
        ratio = (adjacency @ factor) / np.maximum(2 * factor @ (factor.T @ factor), TINY)
        updated = factor * (0.5 + ratio)
        change = np.linalg.norm(updated - factor) / max(float(np.linalg.norm(factor)), TINY)
        factor = updated
        if change < TOLERANCE:
            break
    return np.argmax(factor, axis=1).astype(np.int32)


METHODS = {
    "snmf": EvaluatedMethod(
        find,
        "Wang, Li, Wang, Zhu, Ding 2011, the update for undirected networks; random start",
        k="needed",
        weighted=True,
    ),
}
