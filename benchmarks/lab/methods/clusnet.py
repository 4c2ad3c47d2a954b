"""ClusterNet (ClusNet): a graph convolution and a soft K-means, trained for modularity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.cluster import kmeans_plusplus

from benchmarks.lab.methods import node2vec
from benchmarks.lab.neural import (
    Weights,
    first_weights,
    needs_torch,
    renormalised,
    tensor_of,
    torch_alone,
    train,
)
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

if TYPE_CHECKING:
    from torch import Tensor

WIDTH = 50
"""Columns of both layers (paper, section 5; the authors' program)."""

SHARPNESS = 30.0
"""β of the softmax over the centres."""

UPDATES = 10
"""Updates of the centres before the one that is differentiated."""

STEPS, RATE = 200, 1e-2


def embed(weights: Weights, propagation: Tensor, features: Tensor) -> Tensor:
    """X (n, d): two graph convolutions, rows of length 1."""
    from torch.nn.functional import normalize

    hidden = (propagation @ (features @ weights["layer.0"])).relu()
    return normalize(propagation @ (hidden @ weights["layer.1"]))


def assigned(embedding: Tensor, centres: Tensor) -> Tensor:
    """r (n, K): softmax over the centres of −β times the distance, here −cosine (equation 2)."""
    from torch.nn.functional import normalize

    return (SHARPNESS * embedding @ normalize(centres).T).softmax(dim=1)


def updated(embedding: Tensor, centres: Tensor) -> Tensor:
    """μ_k = Σ_j r_jk x_j / Σ_j r_jk (equation 1)."""
    shares = assigned(embedding, centres)
    return shares.T @ embedding / shares.sum(dim=0)[:, None]


def soft_clusters(embedding: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """r at the fixed point of both equations, differentiable through the last update only (section
    4.2, "approximate gradient"); and the centres there.
    """
    import torch

    with torch.no_grad():
        for _ in range(UPDATES):
            centres = updated(embedding, centres)
    centres = updated(embedding, centres)
    return assigned(embedding, centres), centres.detach()


def expected_modularity(members: Tensor, adjacency: Tensor, degrees: Tensor) -> Tensor:
    """Tr(rᵀ B r) / 2m (section 5)."""
    within = (members * (adjacency @ members)).sum()
    total = degrees.sum()
    return (within - (members.T @ degrees).square().sum() / total) / total


def find(task: Task) -> Labels:
    """Train on this graph, from node2vec features; the community of a node is its likeliest."""
    import torch

    features = torch.from_numpy(node2vec.embed(task))
    with task.stage("train"), torch_alone(task.seed):
        shapes = {"layer.0": (features.shape[1], WIDTH), "layer.1": (WIDTH, WIDTH)}
        weights = first_weights(shapes)
        propagation = tensor_of(renormalised(task.adjacency))
        adjacency = tensor_of(task.adjacency)
        degrees = torch.tensor(np.asarray(task.adjacency.sum(axis=1)).ravel(), dtype=torch.float32)
        centres = first_centres(embed(weights, propagation, features), task.k(), task.seed)

        def loss(_step: int) -> Tensor:
            nonlocal centres
            members, centres = soft_clusters(embed(weights, propagation, features), centres)
            return -expected_modularity(members, adjacency, degrees)

        train(weights, loss, STEPS, RATE)
        with torch.no_grad():
            members, _ = soft_clusters(embed(weights, propagation, features), centres)
    return np.asarray(members.argmax(dim=1)).astype(np.int32)


def first_centres(embedding: Tensor, k: int, seed: int) -> Tensor:
    """K rows far from each other, as K-means begins."""
    import torch

    chosen, _ = kmeans_plusplus(embedding.detach().numpy(), k, random_state=seed)
    return torch.from_numpy(chosen)


METHODS = {
    "clusnet": EvaluatedMethod(
        find,
        "Wilder, Ewing, Dilkina, Tambe 2019, equations 1 and 2; trained on each graph",
        k="needed",
        weighted=True,
        missing=lambda: needs_torch() or node2vec.METHODS["node2vec"].missing(),
    ),
}
