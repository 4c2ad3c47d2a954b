"""The label-induced graph: each node is linked to its whole community (paper, section 4.2)."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class LabelInducedNeighbourhood:
    """The neighbourhoods in A⁽ᵍ⁾ = R Rᵀ, computed without the `(n, n)` matrix.

    R, `(n, K)`, has a 1 for each node's community. So A⁽ᵍ⁾ links each node to its whole community,
    itself included. A convolution adds one more self loop: its result for a node is (sum over the
    community + the node itself) / (size + 1).
    """

    def __init__(self, labels: NDArray[np.int32], device: str = "cpu") -> None:
        self._labels = torch.as_tensor(labels.astype(np.int64), device=device)
        self._sizes = torch.bincount(self._labels)
        order = torch.argsort(self._labels, stable=True)
        self._members = torch.split(order, self._sizes.tolist())

    def convolve(self, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`."""
        return (self.total(hidden) + hidden) / (self._sizes[self._labels] + 1)[:, None]

    def total(self, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`."""
        sums = hidden.new_zeros((len(self._sizes), hidden.shape[1]))
        return sums.index_add(0, self._labels, hidden)[self._labels]

    def attend(self, source: Tensor, target: Tensor, hidden: Tensor) -> Tensor:
        """See `Neighbourhood`; one community at a time, so memory depends on the largest one."""
        result = torch.zeros_like(hidden)
        for members in self._members:
            pairs = source[members, None] + target[None, members]  # (size, size)
            weight = torch.nn.functional.leaky_relu(pairs, 0.2).softmax(dim=1)
            result = result.index_add(0, members, weight @ hidden[members])
        return result
