"""Graph attention: each node weighs its neighbours (Veličković et al., ICLR 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.frozen_torch import FrozenOnTorch
from stream_icd.icd.encoder.gcn import smoothed, unit_rows
from stream_icd.icd.encoder.initialisation import Initialisation, initial_matrix
from stream_icd.icd.recipe import EncoderSettings

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood


class Gat(FrozenOnTorch):
    """H ← tanh(attention(H W)), one head; every row then optionally scaled to length 1.

    Edges define the neighbours; the values of their weights are ignored. The memory per edge is
    one row of each layer's width.
    """

    def weight_shapes(self, settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
        """One matrix per layer, and its attention vectors for the source and target node."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, step in enumerate(pairwise(settings.widths)):
            shapes |= {f"layer.{k}": step, f"source.{k}": step[1:], f"target.{k}": step[1:]}
        return shapes

    def initial_weights(self, settings: EncoderSettings, rng: np.random.Generator) -> Weights:
        """Matrices by the recipe's initialisation; attention vectors by Xavier or Hadamard."""
        weights: Weights = {}
        vector: Initialisation = "hadamard" if settings.initialisation == "hadamard" else "xavier"
        for k, step in enumerate(pairwise(settings.widths)):
            weights[f"layer.{k}"] = initial_matrix(rng, step, settings.initialisation)
            for part in ("source", "target"):
                weights[f"{part}.{k}"] = initial_matrix(rng, (step[1], 1), vector)[:, 0].copy()
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
            source, target = mixed @ weights[f"source.{k}"], mixed @ weights[f"target.{k}"]
            hidden = neighbourhood.attend(source, target, mixed).tanh()
            hidden = unit_rows(hidden) if settings.normalise_rows else hidden
        assert hidden is not None  # a recipe has at least two widths
        return smoothed(hidden, settings, neighbourhood)
