"""A graph filter of eleven numbers: what it learns does not depend on the order of the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from stream_icd.methods.icd.encoder.contract import Differentiable, Weights, projection
from stream_icd.methods.icd.row_blocks import Floats32, for_blocks, single_threaded_blas

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood
    from stream_icd.methods.icd.features import SparsePlusRankOne

START = {"hops": (0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25), "exponents": (0.9, 0.1, 0)}
"""The numbers before training, chosen on validation graphs (docs/measured/encoder.md): the mean of
hops 4 to 7."""

_NOISE = 0.01
"""What the seed adds to each of these numbers, at most."""

_LEAST_DEGREE = 1e-12


class _Hops(Differentiable):
    """U = Σ w_k H_k, with H_0 = D^-c Z R and H_k = D^-a A D^-b H_(k-1); D holds the degrees.

    Rows of each H_k and of U are optionally scaled to length 1; then a and c have no effect. R is a
    fixed random projection of the columns of Z to the last of the widths. It about keeps the scalar
    products of rows, which do not depend on the order of Z's columns, so the weights "hops" (w) and
    "exponents" (a, b, c) mean the same in every graph. Widths between the first and the last are
    not used.
    """

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: (len(numbers),) for name, numbers in START.items()}

    def initial_weights(self, rng: np.random.Generator) -> Weights:
        """`START`, with a little noise; a seed makes the same bits on every machine."""
        return {
            name: (np.array(numbers) + _NOISE * self._uniform(rng, len(numbers))).astype(np.float32)
            for name, numbers in START.items()
        }

    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        # Loads numba, which who only reads a model does not need.
        from stream_icd.methods.icd.features import propagation_matrix

        a, b, c = weights["exponents"]
        # The power of a degree of 0 would be infinite.
        degrees = np.maximum(adjacency.sum(axis=1), _LEAST_DEGREE).astype(np.float32)
        with single_threaded_blas():
            first = features.times_dense(projection(features.shape[1], self.settings.widths[-1]))
        first *= degrees[:, None] ** -c
        hidden = self._scaled_rows(first)
        mixed = weights["hops"][0] * hidden
        step = _scaled_both_sides(degrees**-a, adjacency, degrees**-b)
        for weight in weights["hops"][1:]:
            hidden = self._propagated(step, hidden, threads)
            _add(mixed, weight, hidden, threads)
        propagation = propagation_matrix(adjacency).astype(np.float32)
        return self._averaged(propagation, self._scaled_rows(mixed), threads)

    def forward(
        self, weights: Mapping[str, Tensor], features: FeatureTensors, neighbourhood: Neighbourhood
    ) -> Tensor:
        hops, (a, b, c) = weights["hops"], weights["exponents"]
        onto = hops.new_tensor(projection(features.shape[1], self.settings.widths[-1]))
        first = features.times(onto)
        degrees = neighbourhood.total(first.new_ones((len(first), 1))).clamp_min(_LEAST_DEGREE)
        hidden = self.scaled(degrees**-c * first)
        mixed = hops[0] * hidden
        for weight in hops[1:]:
            hidden = self.scaled(degrees**-a * neighbourhood.total(degrees**-b * hidden))
            mixed = mixed + weight * hidden
        return self.smoothed(self.scaled(mixed), neighbourhood)


def _add(total: Floats32, weight: np.float32, hidden: Floats32, threads: int) -> None:
    """Add `weight` times `hidden`, without another matrix of that size in memory."""

    def add(rows: slice) -> None:
        total[rows] += weight * hidden[rows]

    for_blocks(add, len(total), threads)


def _scaled_both_sides(
    row_scale: Floats32, adjacency: csr_array, column_scale: Floats32
) -> csr_array:
    scaled = adjacency.astype(np.float32)
    row = np.repeat(np.arange(scaled.shape[0]), np.diff(scaled.indptr))
    scaled.data *= row_scale[row] * column_scale[scaled.indices]
    return scaled


KINDS = {"hops": _Hops}
