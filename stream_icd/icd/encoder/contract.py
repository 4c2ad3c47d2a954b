"""The interface of an encoder: it maps any graph to one row per node, in any order of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.recipe import EncoderSettings
from stream_icd.icd.sparse_plus_rank_one import SparsePlusRankOne

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood

Weights = dict[str, NDArray[np.float32]]
"""An encoder's parameters by name: what a model file holds."""


class Encoder(Protocol):
    """An inductive encoder: `embed` runs it frozen, `forward` during training.

    Both return the same embedding for the same weights. Permuting the nodes and their features
    permutes its rows. The shapes of the weights do not depend on the number of nodes.
    """

    def weight_shapes(self, settings: EncoderSettings) -> dict[str, tuple[int, ...]]:
        """Name and shape of every parameter."""
        ...

    def initial_weights(self, settings: EncoderSettings, rng: np.random.Generator) -> Weights:
        """Weights before any training, float32."""
        ...

    def embed(
        self,
        settings: EncoderSettings,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,
    ) -> NDArray[np.float32]:
        """U, `(n, d)`, of a graph `(n, n)` with reduced features Z, `(n, L)`."""
        ...

    def forward(
        self,
        settings: EncoderSettings,
        weights: Mapping[str, Tensor],
        features: FeatureTensors,
        neighbourhood: Neighbourhood,
    ) -> Tensor:
        """U, `(n, d)`, differentiable in the weights, over the neighbourhood of any graph."""
        ...
