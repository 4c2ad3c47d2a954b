"""DNR: stacked autoencoders of the modularity matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from benchmarks.lab.clustering import clustered, dimension
from benchmarks.lab.neural import Weights, first_weights, needs_torch, torch_alone, train
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

if TYPE_CHECKING:
    from torch import Tensor

LAYERS = 3
"""Autoencoders; each has half the columns of the one before (paper, table 1: 128-64-32-16)."""

BATCH, RATE = 256, 1e-3
"""Rows of a step of Adam, and its rate."""

ENTRIES = 2.5e8
"""Entries of the matrix that an autoencoder reads, all its steps together."""

LEAST_STEPS, MOST_STEPS = 200, 1000

Matrix = NDArray[np.float32]


def embed(adjacency: csr_array, width: int, seed: int) -> Matrix:
    """H (n, width / 4) of the last autoencoder: the first reconstructs the rows of B, each other
    the H of the one before (section 3.2). The rows have length 1: without this, their length
    depends on the degree, and NMI on L(f,.3) is 60 instead of 83.
    """
    import torch

    degrees = np.asarray(adjacency.sum(axis=1)).ravel()
    rng = np.random.default_rng(seed)

    def modularity_rows(nodes: NDArray[np.int64]) -> Tensor:
        """Rows of B, b_ij = a_ij − k_i k_j / 2m."""
        null = np.outer(degrees[nodes], degrees / max(degrees.sum(), 1.0))
        return torch.tensor(adjacency[nodes].toarray() - null, dtype=torch.float32)

    rows: Callable[[NDArray[np.int64]], Tensor] = modularity_rows
    n_columns = adjacency.shape[0]
    with torch_alone(seed):
        for layer in range(LAYERS):
            hidden = encode(rows, adjacency.shape[0], n_columns, max(2, width >> layer), rng)
            n_columns = hidden.shape[1]
            rows = hidden.__getitem__
    return np.asarray(normalize(hidden.numpy()))


def encode(
    rows: Callable[[NDArray[np.int64]], Tensor],
    n_rows: int,
    n_columns: int,
    width: int,
    rng: np.random.Generator,
) -> Tensor:
    """H = tanh(B W + d), (n_rows, width), of the autoencoder that minimises ‖B − tanh(H W' + d')‖²
    (equations 6 to 8).
    """
    import torch

    weights = first_weights(
        {
            "encode": (n_columns, width),
            "encode bias": (width,),
            "decode": (width, n_columns),
            "decode bias": (n_columns,),
        }
    )
    steps = int(np.clip(ENTRIES / (BATCH * n_columns), LEAST_STEPS, MOST_STEPS))
    rounds = -(-steps * BATCH // n_rows)
    order = np.concatenate([rng.permutation(n_rows) for _ in range(rounds)])

    def loss(step: int) -> Tensor:
        batch = rows(order[step * BATCH : (step + 1) * BATCH])
        decoded = (hidden(weights, batch) @ weights["decode"] + weights["decode bias"]).tanh()
        return (decoded - batch).square().sum(dim=1).mean()

    train(weights, loss, steps, RATE)
    with torch.no_grad():
        parts = [
            hidden(weights, rows(np.arange(first, min(first + BATCH, n_rows))))
            for first in range(0, n_rows, BATCH)
        ]
    return torch.cat(parts)


def hidden(weights: Weights, rows: Tensor) -> Tensor:
    """H of rows."""
    return (rows @ weights["encode"] + weights["encode bias"]).tanh()


def find(task: Task) -> Labels:
    """Embed, then K-means."""
    with task.stage("embed"):
        embedding = embed(task.adjacency, dimension(task), task.seed)
    return clustered(task, embedding)


METHODS = {
    "dnr": EvaluatedMethod(
        find,
        "Yang, Cao, He, Wang, Wang, Zhang 2016, section 3, squared error",
        k="needed",
        weighted=True,
        missing=needs_torch,
    ),
}
