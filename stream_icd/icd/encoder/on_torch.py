"""Encoders of layers that run on torch only, also frozen: gat and gin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.gcn import smoothed, unit_rows
from stream_icd.icd.encoder.initialisation import Initialisation, initial_matrix
from stream_icd.icd.recipe import EncoderSettings
from stream_icd.icd.sparse_plus_rank_one import SparsePlusRankOne

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.icd.encoder.neighbourhood import FeatureTensors, Neighbourhood


class LayersOnTorch:
    """H ← layer(H W), W being the layer's matrix; every row then optionally scaled to length 1."""

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        """The output of layer k, given H W."""
        raise NotImplementedError

    def forward(
        self,
        settings: EncoderSettings,
        weights: Mapping[str, Tensor],
        features: FeatureTensors,
        neighbourhood: Neighbourhood,
    ) -> Tensor:
        """U, `(n, d)`, differentiable; see `Encoder`."""
        hidden: Tensor | None = None
        for k in range(len(settings.widths) - 1):
            matrix = weights[f"layer.{k}"]
            mixed = features.times(matrix) if hidden is None else hidden @ matrix
            hidden = self.layer(k, mixed, weights, neighbourhood)
            hidden = unit_rows(hidden) if settings.normalise_rows else hidden
        assert hidden is not None  # a recipe has at least two widths
        return smoothed(hidden, settings, neighbourhood)

    def embed(
        self,
        settings: EncoderSettings,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,  # noqa: ARG002 - one thread makes it deterministic
    ) -> NDArray[np.float32]:
        """U, `(n, d)` float32: `forward` without gradients."""
        import torch

        from stream_icd.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood

        tensors = {name: torch.tensor(weight) for name, weight in weights.items()}
        with torch.no_grad(), _one_thread():
            embedding = self.forward(
                settings, tensors, FeatureTensors(features), GraphNeighbourhood(adjacency)
            )
        return np.asarray(embedding)


class Gat(LayersOnTorch):
    """H ← tanh(attention(H W)), one head: each node weighs its neighbours (Veličković et al. 2018).

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

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        """See `LayersOnTorch`."""
        source, target = mixed @ weights[f"source.{k}"], mixed @ weights[f"target.{k}"]
        return neighbourhood.attend(source, target, mixed).tanh()


class Gin(LayersOnTorch):
    """H ← tanh(tanh(((1 + ε) H + A H) W) V): a perceptron on sums (GIN, Xu et al. 2019)."""

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

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        """See `LayersOnTorch`."""
        summed = neighbourhood.total(mixed) + (1 + weights[f"epsilon.{k}"]) * mixed
        return (summed.tanh() @ weights[f"second.{k}"]).tanh()


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
