"""GraphSAGE: each layer joins a node's vector with the mean of its neighbours'."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.sparse import csr_array

from benchmarks.lab.inductive import Network, methods_of
from benchmarks.lab.neural import Weights, row_normalised, tensor_of

if TYPE_CHECKING:
    from torch import Tensor


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Two layers, each from a node's vector and the mean of its neighbours'."""
    return {"layer.0": (2 * width, width), "layer.1": (2 * width, width)}


def prepare(adjacency: csr_array) -> Tensor:
    """The mean over the neighbours."""
    return tensor_of(row_normalised(adjacency))


def embed(weights: Weights, mean: Tensor, features: Tensor) -> Tensor:
    """h_v ← σ(W · [h_v, mean of h_u over the neighbours u]), rows of length 1 after each layer
    (algorithm 1). The last layer has no σ, so that products can be negative.
    """
    import torch
    from torch.nn.functional import normalize

    hidden = torch.cat([features, mean @ features], dim=1) @ weights["layer.0"]
    hidden = normalize(hidden.relu())
    return normalize(torch.cat([hidden, mean @ hidden], dim=1) @ weights["layer.1"])


METHODS = methods_of(
    "graphsage",
    Network(shapes, prepare, embed),
    "Hamilton, Ying, Leskovec 2017, algorithm 1, mean aggregator",
)
