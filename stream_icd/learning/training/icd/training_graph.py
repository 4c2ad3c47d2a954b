"""A labelled graph as tensors on a device: what training reads, and what it reconstructs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stream_icd.core.errors import BadInput
from stream_icd.methods.bp.find import find_communities
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.graphs.adjacency import among, linked_nodes
from stream_icd.methods.graphs.labelled_graph import LabelledGraph
from stream_icd.methods.graphs.weights import comparable
from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood
from stream_icd.methods.icd.features import SparsePlusRankOne, model_features, structure_matrix
from stream_icd.methods.icd.recipe import Recipe, Variant

_BLOCK_ROWS, _GPU_BLOCK_ROWS = 1024, 8192
"""Rows of X̃ = tanh(U Uᵀ) in memory at a time, so that at most 1024 × n numbers are. A GPU gets more
work at once; and rows in several blocks are computed twice."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingGraph:
    """A graph for training: Z, `(n, L)`, its neighbourhoods, those in A⁽ᵍ⁾, and FR and CR."""

    n_nodes: int
    features: FeatureTensors
    neighbourhood: GraphNeighbourhood
    label_induced: LabelInducedNeighbourhood
    reconstruction: Reconstruction

    @classmethod
    def of(cls, graph: LabelledGraph, recipe: Recipe, device: str = "cpu") -> TrainingGraph:
        """The tensors of a graph, without isolated nodes, as in detection.

        A graph without labels gets pseudo-labels: the communities that maximise modularity.

        Raises `BadInput` if some nodes have labels and others have none: A⁽ᵍ⁾ needs all.
        """
        labels = graph.labels
        if labels is not None and (missing := np.count_nonzero(labels < 0)):
            raise BadInput(
                f"{missing} of {len(labels)} nodes have no label; the paper's losses need all: "
                "give them, or no labels, or learn the encoder edges, which takes some"
            )
        if labels is None:
            labels = find_communities(graph.adjacency, BpParameters(), seed=recipe.seed)
        linked = linked_nodes(graph.adjacency)
        adjacency = among(comparable(graph.adjacency), linked)
        labels = np.unique(labels[linked], return_inverse=True)[1].astype(np.int32, copy=False)
        return cls(
            adjacency.shape[0],
            FeatureTensors(model_features(adjacency, recipe), device),
            GraphNeighbourhood(adjacency, device),
            LabelInducedNeighbourhood(labels, device),
            Reconstruction(
                adjacency, labels, recipe.variant, recipe.losses.scaled_structure, device
            ),
        )


class LabelInducedNeighbourhood:
    """The neighbourhoods in A⁽ᵍ⁾ = R Rᵀ, computed without the `(n, n)` matrix.

    R, `(n, K)`, has a 1 for each node's community. So A⁽ᵍ⁾ links each node to its whole community,
    itself included. A convolution adds one more self loop.
    """

    def __init__(self, labels: NDArray[np.int32], device: str = "cpu") -> None:
        self._labels = torch.as_tensor(labels.astype(np.int64), device=device)
        self._sizes = torch.bincount(self._labels)
        order = torch.argsort(self._labels, stable=True)
        self._members = torch.split(order, self._sizes.tolist())

    def convolve(self, hidden: Tensor) -> Tensor:
        return (self.total(hidden) + hidden) / (self._sizes[self._labels] + 1)[:, None]

    def total(self, hidden: Tensor) -> Tensor:
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
        self._outer = [self._tensor(part.astype(np.float32)) for part in structure.outer or ()]
        self._labels = self._tensor(labels.astype(np.int64))
        strength = _membership_strength(adjacency, labels, variant)
        self._strength = self._tensor(strength.astype(np.float32))

    def losses(
        self, embedding: Tensor, rows: NDArray[np.int64] | None = None
    ) -> tuple[Tensor, ...]:
        """Return (FR, CR) of an embedding, `(n, d)`; with `rows`, estimate them from these rows."""
        n = len(embedding)
        chosen = np.arange(n) if rows is None else rows
        size = _BLOCK_ROWS if self._device == "cpu" else _GPU_BLOCK_ROWS
        blocks = [chosen[k : k + size] for k in range(0, len(chosen), size)]
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
        if self._outer:
            u, v = self._outer
            block = block + torch.outer(u[self._tensor(rows)], v)
        if self._range is not None:
            low, high = self._range
            block = 2 * (block - low) / max(high - low, 1e-10) - 1
        return block

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(array, device=self._device)


def _membership_strength(
    adjacency: csr_array, labels: NDArray[np.int32], variant: Variant
) -> NDArray[np.float64]:
    """The only non-zero entry of each row of H, `(n,)`."""
    if variant == "ICD-M":
        return np.ones(len(labels))
    degrees = adjacency.sum(axis=1, dtype=np.float64)
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
