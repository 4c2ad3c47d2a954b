"""D, the discriminator: is an embedding that of a graph, or of its label-induced graph?"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from torch import Tensor

from stream_icd.icd.encoder.contract import Weights
from stream_icd.icd.encoder.initialisation import initial_matrix


def initial_discriminator(widths: tuple[int, ...], rng: np.random.Generator) -> Weights:
    """Return the weights of a multi-layer perceptron.

    Args:
        widths: widths of the layers. Matrices, `(width, next width)`, are drawn as Xavier; biases
            are zero.
    """
    weights: Weights = {}
    for k, step in enumerate(pairwise(widths)):
        weights[f"layer.{k}"] = initial_matrix(rng, step, "xavier")
        weights[f"bias.{k}"] = np.zeros(step[1], np.float32)
    return weights


def discriminate(weights: Mapping[str, Tensor], embedding: Tensor) -> Tensor:
    """Return D(U), `(n,)`: the probability that each row is label-induced (paper, eq. 8).

    Args:
        embedding: U, `(n, d)`.
    """
    hidden = embedding
    n_layers = len(weights) // 2
    for k in range(n_layers):
        hidden = hidden @ weights[f"layer.{k}"] + weights[f"bias.{k}"]
        hidden = hidden.relu() if k < n_layers - 1 else hidden.sigmoid()
    return hidden[:, 0]
