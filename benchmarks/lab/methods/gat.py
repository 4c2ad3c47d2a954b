"""GAT: each node weighs its neighbours by attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, eye_array

from benchmarks.lab.inductive import Network, methods_of
from benchmarks.lab.neural import Weights

if TYPE_CHECKING:
    from torch import Tensor

HEADS, HIDDEN = 8, 8
"""Heads of the first layer and columns of each; the second has one head (section 3.3)."""

SLOPE = 0.2
"""Slope of LeakyReLU below 0 (section 2.1)."""


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Two layers: W, and the two halves of the attention vector a for each head."""
    return {
        "layer.0": (width, HEADS * HIDDEN),
        "target.0": (HEADS, HIDDEN),
        "source.0": (HEADS, HIDDEN),
        "layer.1": (HEADS * HIDDEN, width),
        "target.1": (1, width),
        "source.1": (1, width),
    }


def prepare(adjacency: csr_array) -> tuple[Tensor, Tensor]:
    """Rows and columns of the edges, in both directions, each node among its own neighbours."""
    import torch

    rows, columns = csr_array(adjacency + eye_array(adjacency.shape[0])).tocoo().coords
    return torch.tensor(rows.astype(np.int64)), torch.tensor(columns.astype(np.int64))


def embed(weights: Weights, edges: tuple[Tensor, Tensor], features: Tensor) -> Tensor:
    """Two layers (equation 5), ELU between them; rows of length 1, as GraphSAGE's loss has them."""
    from torch.nn.functional import elu, normalize

    hidden = elu(attend(weights, 0, edges, features))
    return normalize(attend(weights, 1, edges, hidden))


def attend(weights: Weights, layer: int, edges: tuple[Tensor, Tensor], hidden: Tensor) -> Tensor:
    """h_i ← Σ_j α_ij W h_j over the neighbours j, for each head, α the softmax over j of
    LeakyReLU(a·[W h_i, W h_j]) (equations 3 to 5).
    """
    import torch
    from torch.nn.functional import leaky_relu

    rows, columns = edges
    heads = len(weights[f"target.{layer}"])
    mixed = (hidden @ weights[f"layer.{layer}"]).view(len(hidden), heads, -1)  # (n, heads, d')
    target = (mixed * weights[f"target.{layer}"]).sum(dim=2)  # (n, heads)
    source = (mixed * weights[f"source.{layer}"]).sum(dim=2)
    scores = leaky_relu(target[rows] + source[columns], SLOPE)  # (edges, heads)
    powers = (scores - scores.max().detach()).exp()
    totals = torch.zeros_like(target).index_add(0, rows, powers)
    shares = powers / totals[rows]
    summed = torch.zeros_like(mixed).index_add(0, rows, shares[:, :, None] * mixed[columns])
    return summed.reshape(len(hidden), -1)


METHODS = methods_of(
    "gat", Network(shapes, prepare, embed), "Veličković et al. 2018, equations 3 to 5"
)
