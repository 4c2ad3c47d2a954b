"""GAP: a network that gives each node a community, trained on each graph for balanced cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.extmath import randomized_svd

from benchmarks.lab.clustering import dimension
from benchmarks.lab.neural import (
    Weights,
    first_weights,
    needs_torch,
    row_normalised,
    tensor_of,
    torch_alone,
    train,
)
from stream_icd.core.arrays import Labels
from stream_icd.interfaces.evaluation.method import EvaluatedMethod, Task

if TYPE_CHECKING:
    from torch import Tensor

COMPONENTS, EMBEDDING, HIDDEN = 64, 256, 64
"""Columns of the features, of the first layer and of the others."""

STEPS, RATE = 200, 5e-3
"""Steps of Adam on the graph, and their rate; the paper's rate is 7.5e-5, for far more steps."""

BALANCE = 0.02
"""Weight of the balance beside the cut. The paper's sum, and also its mean over the nodes,
outweighs the cut where the communities differ in size.
"""


def principal_components(adjacency: csr_array, width: int, seed: int) -> NDArray[np.float32]:
    """Features (n, width): the rows of A in its first principal components (section 4)."""
    left, values, _ = randomized_svd(adjacency, width, random_state=seed)
    return np.asarray(left * values, np.float32)


def shapes(width: int, k: int) -> dict[str, tuple[int, ...]]:
    """Two layers of GraphSAGE, one more, and that of the communities."""
    return {
        "layer.0": (2 * width, EMBEDDING),
        "layer.1": (2 * EMBEDDING, HIDDEN),
        "hidden": (HIDDEN, HIDDEN),
        "hidden bias": (HIDDEN,),
        "community": (HIDDEN, k),
        "community bias": (k,),
    }


def memberships(weights: Weights, mean: Tensor, features: Tensor) -> Tensor:
    """Y (n, K): GraphSAGE's layers, a layer and a softmax over the communities (section 3.2)."""
    import torch

    hidden = features
    for layer in ("layer.0", "layer.1"):
        hidden = (torch.cat([hidden, mean @ hidden], dim=1) @ weights[layer]).relu()
    hidden = (hidden @ weights["hidden"] + weights["hidden bias"]).relu()
    return (hidden @ weights["community"] + weights["community bias"]).softmax(dim=1)


def expected_cut(members: Tensor, adjacency: Tensor, degrees: Tensor) -> Tensor:
    """Σ_ij [Y ⊘ Γ (1 − Y)ᵀ ∘ A]_ij + β Σ_g (K Σ_i Y_ig / n − 1)² with Γ = YᵀD (section 3.1) and β
    the balance: the expected normalised cut, and how uneven the communities are.

    The paper's second sum is Σ_g (Σ_i Y_ig − n / K)²; it outweighs the cut in all but tiny graphs.
    """
    n_nodes, k = members.shape
    volumes = members.T @ degrees  # Γ, (K,)
    within = (members * (adjacency @ members)).sum(dim=0)
    uneven = (members.sum(dim=0) * k / n_nodes - 1).square().sum()
    return ((volumes - within) / volumes.clamp(min=1e-9)).sum() + BALANCE * uneven


def find(task: Task) -> Labels:
    """Train on this graph; the community of a node is its likeliest."""
    import torch

    with task.stage("features"):
        width = min(COMPONENTS, dimension(task))
        features = principal_components(task.adjacency, width, task.seed)
    with task.stage("train"), torch_alone(task.seed):
        weights = first_weights(shapes(width, task.k()))
        tensors = tensor_of(row_normalised(task.adjacency)), torch.from_numpy(features)
        adjacency = tensor_of(task.adjacency)
        degrees = torch.tensor(np.asarray(task.adjacency.sum(axis=1)).ravel(), dtype=torch.float32)

        def loss(_step: int) -> Tensor:
            return expected_cut(memberships(weights, *tensors), adjacency, degrees)

        train(weights, loss, STEPS, RATE)
        with torch.no_grad():
            members = memberships(weights, *tensors)
    return np.asarray(members.argmax(dim=1)).astype(np.int32)


METHODS = {
    "gap": EvaluatedMethod(
        find,
        "Nazi, Hang, Goldie, Ravi, Mirhoseini 2019, section 3; trained on each graph",
        k="needed",
        weighted=True,
        missing=needs_torch,
    ),
}
