"""The paper's encoder: graph convolutions with tanh (section 4.1, eq. 5)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.methods.icd.encoder.contract import Layers, Weights
from stream_icd.methods.icd.recipe import EncoderSettings
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks, product, single_threaded_blas
from stream_icd.methods.icd.structure import SparsePlusRankOne, propagation_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import Neighbourhood


_COLUMNS = 128
"""Columns of the widest layer to compute at a time; memory then scales with the other layers."""


class Gcn(Layers):
    """H ← tanh(D̂^-½ Â D̂^-½ H W), no bias; every row then optionally scaled to length 1.

    A frozen encoder needs only numpy and scipy, so a detector starts without torch.
    """

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """One matrix per layer, `(width, next width)`."""
        return {f"layer.{k}": step for k, step in enumerate(pairwise(self.settings.widths))}

    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        """U, `(n, d)` float32; see `Encoder`."""
        propagation = propagation_matrix(adjacency).astype(np.float32)
        first, *others = (weights[f"layer.{k}"] for k in range(len(weights)))
        mixed = _first_layer(propagation, features, first, others, self.settings, threads)
        for matrix in others[1:]:
            hidden = propagated(propagation, mixed, self.settings, threads)
            mixed = product(hidden, matrix, threads)
        hidden = propagated(propagation, mixed, self.settings, threads)
        return averaged(propagation, hidden, self.settings, threads)

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
    others: list[Floats32],
    settings: EncoderSettings,
    threads: int,
) -> Floats32:
    """The next propagation's input, `(n, next width)`: Z W₁ if it is the only layer, else H W₂.

    H, `(n, width)`, is the widest matrix of a graph, so only `_COLUMNS` of its columns are computed
    at a time: H W₂ is a sum over columns of H, divided by the lengths of H's rows afterwards.
    """
    if not others:
        with single_threaded_blas():
            return np.asarray(features.times_dense(first), np.float32)
    total = np.zeros((len(features), others[0].shape[1]), np.float32)
    squares = np.zeros(len(features), np.float32)
    for start in range(0, first.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        with single_threaded_blas():
            mixed = features.times_dense(np.ascontiguousarray(first[:, columns]))
        _add_columns(propagation, mixed, others[0][columns], total, squares, threads)
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


def propagated(
    propagation: csr_array,
    mixed: Floats32,
    settings: EncoderSettings,
    threads: int,
    squash: bool = True,
) -> Floats32:
    """tanh(P H W) with H W given, rows optionally to length 1; one block of rows at a time."""
    result = np.empty_like(mixed)

    def fill(rows: slice) -> None:
        block = propagation[rows] @ mixed
        if squash:
            np.tanh(block, out=block)
        result[rows] = scaled_rows(block, settings)

    for_blocks(fill, len(mixed), threads)
    return result


def averaged(
    propagation: csr_array, hidden: Floats32, settings: EncoderSettings, threads: int
) -> Floats32:
    """The embedding after the recipe's `smoothing`, as `Encoder.smoothed`."""
    for _ in range(settings.smoothing):
        hidden = propagated(propagation, hidden, settings, threads, squash=False)
    return hidden


def scaled_rows(hidden: Floats32, settings: EncoderSettings) -> Floats32:
    """The rows in place, to length 1 if the recipe says so; a row of zeros stays zero."""
    if settings.normalise_rows:
        lengths = np.sqrt(np.einsum("ij,ij->i", hidden, hidden))
        hidden /= np.maximum(lengths, 1e-12)[:, None]
    return hidden
