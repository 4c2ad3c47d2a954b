"""The interface of an encoder: it maps any graph to one row per node, in any order of the nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.methods.icd.encoder.initialisation import initial_weight
from stream_icd.methods.icd.recipe import EncoderSettings
from stream_icd.methods.icd.row_blocks import Floats32
from stream_icd.methods.icd.structure import SparsePlusRankOne

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood

Weights = dict[str, NDArray[np.float32]]
"""An encoder's parameters by name: what a model file holds."""


class Encoder(ABC):
    """An inductive encoder: `embed` runs it frozen and returns the embedding U, `(n, d)`.

    Permuting the nodes and their features permutes the rows of U. The shapes of the weights do not
    depend on the number of nodes.
    """

    def __init__(self, settings: EncoderSettings) -> None:
        self.settings = settings

    @abstractmethod
    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter."""

    def initial_weights(self, rng: np.random.Generator) -> Weights:
        """Weights before any training, float32: each by the recipe's initialisation."""
        kind, shapes = self.settings.initialisation, self.weight_shapes()
        return {name: initial_weight(rng, shape, kind) for name, shape in shapes.items()}

    @abstractmethod
    def embed(
        self, weights: Weights, features: SparsePlusRankOne, adjacency: csr_array, threads: int = 1
    ) -> Floats32:
        """U of a graph `(n, n)` with reduced features Z, `(n, L)`."""


class Differentiable(Encoder):
    """An encoder that the paper's losses can train, on torch.

    `forward` returns the same embedding as `embed` for the same weights.
    """

    @abstractmethod
    def forward(
        self, weights: Mapping[str, Tensor], features: FeatureTensors, neighbourhood: Neighbourhood
    ) -> Tensor:
        """U, differentiable in the weights, over the neighbourhood of any graph."""

    def scaled(self, hidden: Tensor) -> Tensor:
        """Each row scaled to length 1 if the recipe says so; a row of zeros stays zero."""
        if not self.settings.normalise_rows:
            return hidden
        length: Tensor = hidden.norm(dim=1, keepdim=True)
        return hidden / length.clamp_min(1e-12)

    def smoothed(self, hidden: Tensor, neighbourhood: Neighbourhood) -> Tensor:
        """The embedding after the recipe's `smoothing`."""
        for _ in range(self.settings.smoothing):
            hidden = self.scaled(neighbourhood.convolve(hidden))
        return hidden


class Layers(Differentiable):
    """H ← layer(H W), W being the layer's matrix; every row then optionally scaled to length 1."""

    @abstractmethod
    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        """The output of layer k, given H W."""

    def forward(
        self, weights: Mapping[str, Tensor], features: FeatureTensors, neighbourhood: Neighbourhood
    ) -> Tensor:
        """U, `(n, d)`, differentiable; see `Differentiable`."""
        mixed = features.times(weights["layer.0"])
        hidden = self.scaled(self.layer(0, mixed, weights, neighbourhood))
        for k in range(1, len(self.settings.widths) - 1):
            mixed = hidden @ weights[f"layer.{k}"]
            hidden = self.scaled(self.layer(k, mixed, weights, neighbourhood))
        return self.smoothed(hidden, neighbourhood)
