"""The losses of training: AL, FR and CR for the encoder G (paper, section 4.3), and that of D."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stream_icd.icd.structure import SparsePlusRankOne, Variant, structure_matrix, weighted_degrees

EPSILON = 1e-15
"""Added to each probability before the logarithm, as in the authors' scripts."""

BLOCK_ROWS = 1024
"""Rows of X̃ = tanh(U Uᵀ) in memory at a time, so that at most 1024 × n numbers are."""


def discriminator_loss(
    label_induced: Tensor, embedded: Tensor, form: Literal["paper", "scripts"]
) -> Tensor:
    """The loss of D, given D(Uᵍ) and D(U), `(n,)` each; see `LossSettings.discriminator`."""
    truth = (label_induced + EPSILON).log().mean()
    if form == "paper":
        return -truth - (1 - embedded + EPSILON).log().mean()
    return (embedded + EPSILON).log().mean() - truth


def adversarial_loss(embedded: Tensor) -> Tensor:
    """AL = −mean log D(U): low if D takes the rows of U for label-induced ones."""
    return -(embedded + EPSILON).log().mean()


class Reconstruction:
    """FR and CR of one labelled graph, over blocks of rows of X̃ = tanh(U Uᵀ).

    FR = ‖X̃ − X‖²_F.  CR = −tr(Hᵀ X̃ H), with H the memberships: one-hot for ICD-M, and
    √(degree / volume of the community) for ICD-C, the relaxed normalised cut.
    """

    def __init__(
        self,
        adjacency: csr_array,
        labels: NDArray[np.int32],
        variant: Variant,
        scaled: bool = False,
        device: str = "cpu",
    ) -> None:
        self._device = device
        structure = structure_matrix(adjacency, variant)
        self._range = _range(structure) if scaled else None
        self._sparse = structure.sparse.astype(np.float32)
        self._outer = None
        if structure.outer is not None:
            u, v = structure.outer
            self._outer = self._tensor(u.astype(np.float32)), self._tensor(v.astype(np.float32))
        self._labels = self._tensor(labels.astype(np.int64))
        strength = membership_strength(adjacency, labels, variant)
        self._strength = self._tensor(strength.astype(np.float32))

    def losses(
        self, embedding: Tensor, rows: NDArray[np.int64] | None = None
    ) -> tuple[Tensor, ...]:
        """Return (FR, CR) of an embedding, `(n, d)`; with `rows`, estimate them from these rows."""
        n = len(embedding)
        chosen = np.arange(n) if rows is None else rows
        blocks = [chosen[k : k + BLOCK_ROWS] for k in range(0, len(chosen), BLOCK_ROWS)]
        if len(blocks) == 1:
            parts = [self._block(embedding, blocks[0])]
        else:  # discard each block's matrices; compute them again for the gradient
            parts = [
                checkpoint(self._block, embedding, block, use_reentrant=False) for block in blocks
            ]
        sums = torch.stack([torch.stack(part) for part in parts]).sum(dim=0) * (n / len(chosen))
        return sums[0], sums[1]

    def _block(self, embedding: Tensor, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        where = self._tensor(rows)
        rebuilt = (embedding[where] @ embedding.T).tanh()  # (rows, n)
        difference = rebuilt - self._rows(rows)
        together = self._labels[where, None] == self._labels
        weighed = self._strength[where, None] * self._strength * together
        return difference.square().sum(), -(rebuilt * weighed).sum()

    def _rows(self, rows: NDArray[np.int64]) -> Tensor:
        """Rows of X, `(n_rows, n)`, scaled if wanted; only their sparse part is copied."""
        part = self._sparse[rows]
        n = part.shape[1]
        filled = np.repeat(np.arange(len(rows)), np.diff(part.indptr)) * n + part.indices
        block = torch.zeros(len(rows) * n, device=self._device)
        block[self._tensor(filled)] = self._tensor(part.data)
        block = block.view(len(rows), n)
        if self._outer is not None:
            u, v = self._outer
            block = block + torch.outer(u[self._tensor(rows)], v)
        if self._range is not None:
            low, high = self._range
            block = 2 * (block - low) / max(high - low, 1e-10) - 1
        return block

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def membership_strength(
    adjacency: csr_array, labels: NDArray[np.int32], variant: Variant
) -> NDArray[np.float64]:
    """The only non-zero entry of each row of H, `(n,)`."""
    if variant == "ICD-M":
        return np.ones(len(labels))
    degrees = weighted_degrees(adjacency)
    volumes = np.maximum(np.bincount(labels, degrees), 0.1)  # the scripts' floor
    return np.asarray(np.sqrt(degrees / volumes[labels]))


def _range(structure: SparsePlusRankOne) -> tuple[float, float]:
    """The smallest and the largest entry of X, `(n, n)`, without computing X."""
    row = np.repeat(np.arange(structure.shape[0]), np.diff(structure.sparse.indptr))
    edges = structure.sparse.data
    elsewhere = np.zeros(1)  # entries of M without an edge
    if structure.outer is not None:  # Q, which has −d_i d_j / 2e there, extreme on the diagonal
        u, v = structure.outer
        edges = edges + u[row] * v[structure.sparse.indices]
        elsewhere = u * v
    low, high = elsewhere.min(), elsewhere.max()
    return float(edges.min(initial=low)), float(edges.max(initial=high))
