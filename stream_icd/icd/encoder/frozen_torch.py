"""Run a frozen encoder with torch, for encoders without a numpy implementation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from stream_icd.icd.encoder.contract import Encoder, Weights
from stream_icd.icd.encoder.neighbourhood import FeatureTensors, GraphNeighbourhood
from stream_icd.icd.recipe import EncoderSettings
from stream_icd.icd.sparse_plus_rank_one import SparsePlusRankOne


def embed_on_torch(
    encoder: Encoder,
    settings: EncoderSettings,
    weights: Weights,
    features: SparsePlusRankOne,
    adjacency: csr_array,
) -> NDArray[np.float32]:
    """U, `(n, d)`: `encoder.forward` without gradients; one thread makes it deterministic."""
    tensors = {name: torch.tensor(weight) for name, weight in weights.items()}
    with torch.no_grad(), _one_thread():
        embedding = encoder.forward(
            settings, tensors, FeatureTensors(features), GraphNeighbourhood(adjacency)
        )
    return np.asarray(embedding)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
