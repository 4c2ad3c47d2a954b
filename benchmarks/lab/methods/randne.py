"""RandNE: powers of the adjacency applied to a random orthogonal matrix."""

from __future__ import annotations

import numpy as np

from benchmarks.lab.clustering import clustered, dimension
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

WEIGHTS = (1.0, 1e2, 1e4, 1e5)
"""a₀..a₃ of the powers of A, as in the authors' published example."""


def find(task: Task) -> Labels:
    """U = Σ_i a_i Aⁱ R with R (n, d) random and orthogonal (algorithms 1 and 2), then K-means."""
    with task.stage("embed"):
        rng = np.random.default_rng(task.seed)
        shape = (task.adjacency.shape[0], dimension(task))
        power, _ = np.linalg.qr(rng.standard_normal(shape) / np.sqrt(shape[1]))
        embedding = WEIGHTS[0] * power  # (n, d)
        for weight in WEIGHTS[1:]:
            power = task.adjacency @ power
            embedding += weight * power
    return clustered(task, embedding)


METHODS = {
    "randne": EvaluatedMethod(
        find, "Zhang et al. 2018, algorithms 1 and 2", k="needed", weighted=True
    ),
}
