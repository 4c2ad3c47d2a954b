"""Encoders of layers that run on torch only, also frozen: gat and gin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from stream_icd.methods.icd.encoder.contract import Layers, Weights
from stream_icd.methods.icd.encoder.initialisation import initial_weight
from stream_icd.methods.icd.row_blocks import Floats32
from stream_icd.methods.icd.structure import SparsePlusRankOne

if TYPE_CHECKING:
    from torch import Tensor

    from stream_icd.methods.icd.encoder.neighbourhood import Neighbourhood


class _LayersOnTorch(Layers):
    """Layers that the frozen encoder, too, runs on torch."""

    def embed(
        self,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,  # noqa: ARG002 - one thread makes it deterministic
    ) -> Floats32:
        """U, `(n, d)` float32: `forward` without gradients."""
        import torch

        from stream_icd.methods.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood

        tensors = {name: torch.tensor(weight) for name, weight in weights.items()}
        with torch.no_grad(), _one_thread():
            neighbourhood = GraphNeighbourhood(adjacency)
            return np.asarray(self.forward(tensors, FeatureTensors(features), neighbourhood))


class Gat(_LayersOnTorch):
    """H ← tanh(attention(H W)), one head: each node weighs its neighbours (Veličković et al. 2018).

    Edges define the neighbours; the values of their weights are ignored. The memory per edge is
    one row of each layer's width.
    """

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """One matrix per layer, and its attention vectors for the source and target node."""
        shapes: dict[str, tuple[int, ...]] = {}
        for k, step in enumerate(pairwise(self.settings.widths)):
            shapes |= {f"layer.{k}": step, f"source.{k}": step[1:], f"target.{k}": step[1:]}
        return shapes

    def layer(
        self, k: int, mixed: Tensor, weights: Mapping[str, Tensor], neighbourhood: Neighbourhood
    ) -> Tensor:
        source, target = mixed @ weights[f"source.{k}"], mixed @ weights[f"target.{k}"]
        return neighbourhood.attend(source, target, mixed).tanh()


class Gin(_LayersOnTorch):
    """H ← tanh(tanh(((1 + ε) H + A H) W) V): a perceptron on sums (GIN, Xu et al. 2019)."""

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Two matrices and one ε per layer."""
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
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
