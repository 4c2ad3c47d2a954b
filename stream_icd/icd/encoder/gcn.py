"""The paper's encoder: graph convolutions with tanh (section 4.2, eq. 6)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.initialisation import initial_matrix
from stream_icd.icd.recipe import EncoderSettings
from stream_icd.icd.row_blocks import Floats32, for_blocks, product, single_threaded_blas
from stream_icd.icd.sparse_plus_rank_one import SparsePlusRankOne
from stream_icd.icd.structure import propagation_matrix

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood


class Gcn:
    """H ← tanh(D̂^-½ Â D̂^-½ H W), no bias; by choice every row then scaled to length 1.

    Frozen it needs numpy and scipy only, so that a detector starts without torch.
    """

    def weight_shapes(self, settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
        """One matrix a layer, `(width, next width)`."""
        return {f"layer.{k}": step for k, step in enumerate(pairwise(settings.widths))}

    def initial_weights(self, settings: EncoderSettings, rng: np.random.Generator) -> Weights:
        """Each matrix by the recipe's initialisation."""
        return {
            f"layer.{k}": initial_matrix(rng, step, settings.initialisation)
            for k, step in enumerate(pairwise(settings.widths))
        }

    def embed(
        self,
        settings: EncoderSettings,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,
    ) -> NDArray[np.float32]:
        """U, `(n, d)` float32; see `Encoder`."""
        propagation = propagation_matrix(adjacency).astype(np.float32)
        with single_threaded_blas():
            mixed: Floats32 = features.times_dense(weights["layer.0"])
        hidden = _layer(propagation, mixed, settings, threads)
        for k in range(1, len(weights)):
            mixed = product(hidden, weights[f"layer.{k}"], threads)
            hidden = _layer(propagation, mixed, settings, threads)
        for _ in range(settings.smoothing):
            hidden = _layer(propagation, hidden, settings, threads, squash=False)
        return hidden

    def forward(
        self,
        settings: EncoderSettings,
        weights: Mapping[str, Tensor],
        features: FeatureTensors,
        neighbourhood: Neighbourhood,
    ) -> Tensor:
        """U, `(n, d)`, differentiable; see `Encoder`."""
        hidden = neighbourhood.convolve(features.times(weights["layer.0"])).tanh()
        hidden = unit_rows(hidden) if settings.normalise_rows else hidden
        for k in range(1, len(weights)):
            hidden = neighbourhood.convolve(hidden @ weights[f"layer.{k}"]).tanh()
            hidden = unit_rows(hidden) if settings.normalise_rows else hidden
        return smoothed(hidden, settings, neighbourhood)


def smoothed(hidden: Tensor, settings: EncoderSettings, neighbourhood: Neighbourhood) -> Tensor:
    """The embedding after the recipe's `smoothing`, whatever encoder it comes from."""
    for _ in range(settings.smoothing):
        hidden = neighbourhood.convolve(hidden)
        hidden = unit_rows(hidden) if settings.normalise_rows else hidden
    return hidden


def unit_rows(hidden: Tensor) -> Tensor:
    """Each row scaled to length 1; a row of zeros stays so."""
    length: Tensor = hidden.norm(dim=1, keepdim=True)
    return hidden / length.clamp_min(1e-12)


def _layer(
    propagation: csr_array,
    mixed: Floats32,
    settings: EncoderSettings,
    threads: int,
    squash: bool = True,
) -> Floats32:
    """tanh(P H W) with H W given, rows to length 1 by choice; a block of rows at a time."""
    result = np.empty_like(mixed)

    def fill(rows: slice) -> None:
        block = propagation[rows] @ mixed
        if squash:
            np.tanh(block, out=block)
        if settings.normalise_rows:
            lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
            block /= np.maximum(lengths, 1e-12)[:, None]
        result[rows] = block

    for_blocks(fill, len(mixed), threads)
    return result
