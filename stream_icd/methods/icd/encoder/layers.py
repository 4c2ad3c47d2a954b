"""Encoders of layers: the paper's graph convolutions (gcn), and those on torch only, gat and gin.

A frozen gcn needs only numpy and scipy, so a detector starts without torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.methods.icd.encoder.contract import Differentiable, Weights, initial_weight
from stream_icd.methods.icd.recipe import EncoderSettings
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks, product, single_threaded_blas

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood
    from stream_icd.methods.icd.features import SparsePlusRankOne

_COLUMNS = 128
"""Columns of the widest layer to compute at a time; memory then scales with the other layers."""


class _Layers(Differentiable):
    """H ← layer(H W), W being the layer's matrix; every row then optionally scaled to length 1."""

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        return {f"layer.{k}": step for k, step in enumerate(pairwise(self.settings.widths))}

    @abstractmethod
    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        """The output of layer k, given H W."""

    def forward(
        self, weights: Mapping[str, Tensor], features: FeatureTensors, neighbourhood: Neighbourhood
    ) -> Tensor:
        mixed = features.times(weights["layer.0"])
        hidden = self.scaled(self.layer(0, mixed, weights, neighbourhood))
        for k in range(1, len(self.settings.widths) - 1):
            mixed = hidden @ weights[f"layer.{k}"]
            hidden = self.scaled(self.layer(k, mixed, weights, neighbourhood))
        return self.smoothed(hidden, neighbourhood)


class _Gcn(_Layers):
    """H ← tanh(D̂^-½ Â D̂^-½ H W), no bias: the paper's encoder (section 4.1, eq. 5)."""

    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        # Loads numba, which who only reads a model does not need.
        from stream_icd.methods.icd.features import propagation_matrix

        propagation = propagation_matrix(adjacency).astype(np.float32)
        first, *later = (weights[f"layer.{k}"] for k in range(len(weights)))
        mixed = _first_layer(propagation, features, first, later, self.settings, threads)
        for matrix in later[1:]:
            hidden = self._propagated(propagation, mixed, threads, squash=True)
            mixed = product(hidden, matrix, threads)
        hidden = self._propagated(propagation, mixed, threads, squash=True)
        return self._averaged(propagation, hidden, threads)

    def layer(
        self,
        k: int,  # noqa: ARG002
        mixed: Tensor,
        weights: Mapping[str, Tensor],  # noqa: ARG002
        neighbourhood: Neighbourhood,
    ) -> Tensor:
        return neighbourhood.convolve(mixed).tanh()


def _first_layer(
    propagation: csr_array,
    features: SparsePlusRankOne,
    first: Floats32,
    later: list[Floats32],
    settings: EncoderSettings,
    threads: int,
) -> Floats32:
    """The next propagation's input, `(n, next width)`: Z W₁ if it is the only layer, else H W₂.

    H, `(n, width)`, is the widest matrix of a graph, so only `_COLUMNS` of its columns are computed
    at a time: H W₂ is a sum over columns of H, divided by the lengths of H's rows afterwards.
    """
    if not later:
        with single_threaded_blas():
            return np.asarray(features.times_dense(first), np.float32)
    total = np.zeros((len(features), later[0].shape[1]), np.float32)
    squares = np.zeros(len(features), np.float32)
    for start in range(0, first.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        with single_threaded_blas():
            mixed = features.times_dense(np.ascontiguousarray(first[:, columns]))
        _add_columns(propagation, mixed, later[0][columns], total, squares, threads)
    if settings.normalise_rows:
        total /= np.maximum(np.sqrt(squares), 1e-12)[:, None]
    return total


def _add_columns(
    propagation: csr_array,
    mixed: NDArray[np.floating[Any]],
    matrix: Floats32,
    total: Floats32,
    squares: Floats32,
    threads: int,
) -> None:
    """Add tanh(P H W) W₂ to `total` for some columns of W, and its rows' squares to `squares`."""

    def add(rows: slice) -> None:
        block = propagation[rows] @ mixed
        np.tanh(block, out=block)
        squares[rows] += np.einsum("ij,ij->i", block, block)
        total[rows] += block @ matrix

    for_blocks(add, len(total), threads)


class _LayersOnTorch(_Layers):
    """Layers that the frozen encoder, too, runs on torch."""

    def embed(
        self,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,  # noqa: ARG002 - one thread makes it deterministic
    ) -> Floats32:
        """`forward` without gradients."""
        import torch

        from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood

        tensors = {name: torch.tensor(weight) for name, weight in weights.items()}
        with torch.no_grad(), _one_thread():
            neighbourhood = GraphNeighbourhood(adjacency)
            return np.asarray(self.forward(tensors, FeatureTensors(features), neighbourhood))


class _Gat(_LayersOnTorch):
    """H ← tanh(attention(H W)), one head: each node weighs its neighbours (Veličković et al. 2018).

    Edges define the neighbours; the values of their weights are ignored. The memory per edge is
    one row of each layer's width.
    """

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for k, step in enumerate(pairwise(self.settings.widths)):
            shapes |= {f"layer.{k}": step, f"source.{k}": step[1:], f"target.{k}": step[1:]}
        return shapes

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        source, target = mixed @ weights[f"source.{k}"], mixed @ weights[f"target.{k}"]
        return neighbourhood.attend(source, target, mixed).tanh()


class _Gin(_LayersOnTorch):
    """H ← tanh(tanh(((1 + ε) H + A H) W) V): a perceptron on sums (GIN, Xu et al. 2019)."""

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (n_in, n_out) in enumerate(pairwise(self.settings.widths)):
            shapes |= {f"layer.{k}": (n_in, n_out), f"second.{k}": (n_out, n_out)}
            shapes[f"epsilon.{k}"] = (1,)
        return shapes

    def initial_weights(self, rng: np.random.Generator) -> Weights:
        """Matrices by the recipe's initialisation, ε = 0."""
        kind = self.settings.initialisation
        return {
            name: initial_weight(rng, shape, kind)
            if len(shape) > 1
            else np.zeros(shape, np.float32)
            for name, shape in self.weight_shapes().items()
        }

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        summed = neighbourhood.total(mixed) + (1 + weights[f"epsilon.{k}"]) * mixed
        return (summed.tanh() @ weights[f"second.{k}"]).tanh()


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    # Several threads add up in an order of their own, and the embedding would differ by bits.
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


KINDS = {"gcn": _Gcn, "gat": _Gat, "gin": _Gin}
