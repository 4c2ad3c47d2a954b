"""GIN: each layer sums the neighbours' vectors and applies a network to the sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.lab.inductive import Network, methods_of
from benchmarks.lab.neural import Weights, tensor_of

if TYPE_CHECKING:
    from torch import Tensor


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Two layers; each has a network of two layers and an ε."""
    found: dict[str, tuple[int, ...]] = {}
    for layer in range(2):
        found[f"inner.{layer}"] = found[f"outer.{layer}"] = (width, width)
        found[f"inner bias.{layer}"] = found[f"outer bias.{layer}"] = (width,)
        found[f"epsilon.{layer}"] = ()
    return found


def embed(weights: Weights, adjacency: Tensor, features: Tensor) -> Tensor:
    """h_v ← MLP((1 + ε) h_v + Σ h_u over the neighbours u) (equation 4.1), the columns standardised
    inside the MLP as in section 7; rows of length 1, as GraphSAGE's loss has them.
    """
    from torch.nn.functional import batch_norm, normalize

    hidden = features
    for layer in range(2):
        summed = (1 + weights[f"epsilon.{layer}"]) * hidden + adjacency @ hidden
        inner = summed @ weights[f"inner.{layer}"] + weights[f"inner bias.{layer}"]
        inner = batch_norm(inner, None, None, training=True).relu()
        hidden = inner @ weights[f"outer.{layer}"] + weights[f"outer bias.{layer}"]
        hidden = hidden.relu() if layer == 0 else hidden
    return normalize(hidden)


METHODS = methods_of(
    "gin", Network(shapes, tensor_of, embed), "Xu, Hu, Leskovec, Jegelka 2019, equation 4.1"
)
