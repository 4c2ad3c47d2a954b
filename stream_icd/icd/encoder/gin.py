"""Graph isomorphism network: a perceptron on sums of neighbours (Xu et al., ICLR 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.frozen_torch import FrozenOnTorch
from stream_icd.icd.encoder.gcn import smoothed, unit_rows
from stream_icd.icd.encoder.initialisation import initial_matrix
from stream_icd.icd.recipe import EncoderSettings

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood


class Gin(FrozenOnTorch):
    """H ← tanh(tanh(((1 + ε) H + A H) W) V); every row then optionally scaled to length 1."""

    def weight_shapes(self, settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
        """Two matrices and one ε per layer."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, (n_in, n_out) in enumerate(pairwise(settings.widths)):
            shapes |= {f"layer.{k}": (n_in, n_out), f"second.{k}": (n_out, n_out)}
            shapes[f"epsilon.{k}"] = (1,)
        return shapes

    def initial_weights(self, settings: EncoderSettings, rng: np.random.Generator) -> Weights:
        """Matrices by the recipe's initialisation, ε = 0."""
        weights: Weights = {}
        for k, (n_in, n_out) in enumerate(pairwise(settings.widths)):
            weights[f"layer.{k}"] = initial_matrix(rng, (n_in, n_out), settings.initialisation)
            weights[f"second.{k}"] = initial_matrix(rng, (n_out, n_out), settings.initialisation)
            weights[f"epsilon.{k}"] = np.zeros(1, np.float32)
        return weights

    def forward(
        self,
        settings: EncoderSettings,
        weights: Mapping[str, Tensor],
        features: FeatureTensors,
        neighbourhood: Neighbourhood,
    ) -> Tensor:
        """U, `(n, d)`, differentiable; see `Encoder`."""
        hidden: Tensor | None = None
        for k in range(len(weights) // 3):
            matrix = weights[f"layer.{k}"]
            mixed = features.times(matrix) if hidden is None else hidden @ matrix
            summed = neighbourhood.total(mixed) + (1 + weights[f"epsilon.{k}"]) * mixed
            hidden = (summed.tanh() @ weights[f"second.{k}"]).tanh()
            hidden = unit_rows(hidden) if settings.normalise_rows else hidden
        assert hidden is not None  # a recipe has at least two widths
        return smoothed(hidden, settings, neighbourhood)
