"""Graph operations for the layers of an encoder, and its input features, as torch tensors."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from stream_icd.methods.icd.features import SparsePlusRankOne, propagation_matrix


class Neighbourhood(Protocol):
    """The message-passing operations of a graph; rows of `hidden` are nodes, `(n, width)`."""

    def convolve(self, hidden: Tensor) -> Tensor:
        """D̂^-½ Â D̂^-½ H with Â = A + I."""
        ...

    def total(self, hidden: Tensor) -> Tensor:
        """A H: the weighted sum over each node's neighbours."""
        ...

    def attend(self, source: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
        """Attention-weighted mean of the rows of each node and its neighbours.

        Node i weighs row j by the softmax over j of LeakyReLU(source_i + target_j), slope 0.2,
        with j running over i itself and its neighbours. `source` and `target` are `(n,)`.
        """
        ...


class GraphNeighbourhood:
    """The neighbourhoods of a sparse graph, `(n, n)`."""

    def __init__(self, adjacency: csr_array, device: str = "cpu") -> None:
        self._adjacency = _sparse_tensor(adjacency, device)
        with_loops = propagation_matrix(adjacency)
        self._propagation = _sparse_tensor(with_loops, device)
        row = np.repeat(np.arange(adjacency.shape[0]), np.diff(with_loops.indptr))
        self._row = torch.as_tensor(row, device=device)
        self._column = torch.as_tensor(with_loops.indices.astype(np.int64), device=device)

    def convolve(self, hidden: Tensor) -> Tensor:
        return _times(self._propagation, self._propagation, hidden)  # it is symmetric

    def total(self, hidden: Tensor) -> Tensor:
        return _times(self._adjacency, self._adjacency, hidden)

    def attend(self, source: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
        # Uses index_select and embedding: with `source[row]`, threads sum the gradient in random
        # order, so training would not be reproducible.
        score = source.index_select(0, self._row) + target.index_select(0, self._column)
        score = torch.nn.functional.leaky_relu(score, 0.2)
        # The largest of each row is taken off, so that no exponential overflows.
        highest = torch.full_like(source, -torch.inf)
        highest = highest.scatter_reduce(0, self._row, score.detach(), "amax")
        weight = (score - highest[self._row]).exp()
        total = torch.zeros_like(source).index_add(0, self._row, weight)
        share = weight / total.index_select(0, self._row)
        read = torch.nn.functional.embedding(self._column, hidden)
        return torch.zeros_like(hidden).index_add(0, self._row, share[:, None] * read)


class FeatureTensors:
    """Z on a device: sparse plus rank one, multiplied without a dense copy."""

    def __init__(self, features: SparsePlusRankOne, device: str = "cpu") -> None:
        self.shape = features.shape
        self._sparse = _sparse_tensor(features.sparse, device)
        self._transposed = _sparse_tensor(features.sparse.T.tocsr(), device)
        self._outer = [
            torch.as_tensor(part.astype(np.float32), device=device) for part in features.outer or ()
        ]

    def times(self, weight: Tensor) -> Tensor:
        """Z W, `(n, width)`, differentiable in W."""
        product = _times(self._sparse, self._transposed, weight)
        if not self._outer:
            return product
        u, v = self._outer
        return product + torch.outer(u, v @ weight)


class _SparseProduct(torch.autograd.Function):
    """S H with a fixed S: the gradient is Sᵀ times the incoming one."""

    @staticmethod
    def forward(context: Any, matrix: Tensor, transposed: Tensor, hidden: Tensor) -> Tensor:
        context.transposed = transposed
        return matrix @ hidden

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, context.transposed @ gradients[0]


def _times(matrix: Tensor, transposed: Tensor, hidden: Tensor) -> Tensor:
    product: Tensor = _SparseProduct.apply(matrix, transposed, hidden)
    return product


def _sparse_tensor(matrix: csr_array, device: str) -> Tensor:
    with warnings.catch_warnings():  # torch warns that CSR tensors are in beta
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            torch.as_tensor(matrix.indptr.astype(np.int64)),
            torch.as_tensor(matrix.indices.astype(np.int64)),
            torch.as_tensor(matrix.data.astype(np.float32)),
            size=matrix.shape,
            device=device,
            check_invariants=False,
        )
