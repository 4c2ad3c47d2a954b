"""Encoders without a numpy implementation: frozen, they run on torch too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.encoder.contract import Encoder, Weights
from stream_icd.icd.recipe import EncoderSettings
from stream_icd.icd.sparse_plus_rank_one import SparsePlusRankOne


class FrozenOnTorch:
    """Part of an encoder: `embed` is its `forward` without gradients."""

    def embed(
        self: Encoder,
        settings: EncoderSettings,
        weights: Weights,
        features: SparsePlusRankOne,
        adjacency: csr_array,
        threads: int = 1,  # noqa: ARG002 - one thread makes it deterministic
    ) -> NDArray[np.float32]:
        """U, `(n, d)` float32; see `Encoder`."""
        import torch

        from stream_icd.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood

        tensors = {name: torch.tensor(weight) for name, weight in weights.items()}
        with torch.no_grad(), _one_thread():
            embedding = self.forward(
                settings, tensors, FeatureTensors(features), GraphNeighbourhood(adjacency)
            )
        return np.asarray(embedding)


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
